"""Which file system a directory is on, and whether a catalog may live there."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import NetworkFileSystem

# SQLite's WAL needs memory shared between all processes: file systems that span machines lack it.
NETWORK_FILE_SYSTEMS = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.cephfs",
        "fuse.glusterfs",
        "fuse.gcsfuse",
        "fuse.goofys",
        "fuse.juicefs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "gfs2",
        "smb2",
        "smb3",
        "smbfs",
    ]
)


def file_system_type(path: str, mountinfo: str) -> str:
    """Return the type of the file system that holds an absolute path, by /proc/self/mountinfo."""
    best, best_type = -1, "unknown"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        mount = _unescape(fields[4])
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        # The last of several mounts on one point is the one that is seen.
        if inside and len(mount) >= best:
            best, best_type = len(mount), after.split()[0]
    return best_type


def refuse_network_file_system(directory: Path, mountinfo: str | None = None) -> None:
    """Raise NetworkFileSystem where a catalog in ``directory`` could be damaged."""
    if mountinfo is None:
        mountinfo = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    kind = file_system_type(os.path.realpath(directory), mountinfo)
    if kind in NETWORK_FILE_SYSTEMS:
        raise NetworkFileSystem(
            f"{directory} is on a network file system ({kind}), which can't carry SQLite's "
            "write-ahead log: use a local disk, or a PostgreSQL catalog to share between machines"
        )


def _unescape(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
