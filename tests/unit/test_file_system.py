"""Which file system a path is on, and where a catalog may not live."""

from pathlib import Path

import pytest

from ledgermq.parquet_ledger import NetworkFileSystem
from ledgermq.parquet_ledger.file_system import (
    NETWORK_FILE_SYSTEMS,
    file_system_type,
    refuse_network_file_system,
)

MOUNTS = r"""21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw,nosuid - proc proc rw
30 21 0:40 / /srv/share rw,relatime shared:9 master:2 - nfs4 server:/export rw,vers=4.2
31 30 8:2 / /srv/share/local rw - xfs /dev/sdb1 rw
32 21 0:41 / /mnt/my\040disk rw - cifs //host/share rw
33 21 0:42 / /mnt/tab\011and\134slash rw - 9p host rw
34 21 0:43 / /data rw - ext4 /dev/sdc1 rw
35 34 0:44 / /data rw - nfs server:/data rw
a broken line
"""
CONTAINER = "1 0 0:30 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/u\n"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/me/ledger", "ext4"),
        ("/srv", "ext4"),
        ("/srv/share", "nfs4"),
        ("/srv/share/a/b", "nfs4"),
        ("/srv/shared", "ext4"),
        ("/srv/share/local/ledger", "xfs"),
        ("/mnt/my disk/ledger", "cifs"),
        ("/mnt/my", "ext4"),
        ("/mnt/tab\tand\\slash/x", "9p"),
        ("/data/ledger", "nfs"),
    ],
)
def test_a_path_is_on_its_innermost_and_latest_mount(path: str, kind: str) -> None:
    assert file_system_type(path, MOUNTS) == kind


def test_the_root_of_a_container_is_an_overlay() -> None:
    assert file_system_type("/var/ledger", CONTAINER) == "overlay"


def test_a_path_on_no_known_mount_is_of_unknown_type() -> None:
    assert file_system_type("/var/ledger", "") == "unknown"


@pytest.mark.parametrize("kind", sorted(NETWORK_FILE_SYSTEMS))
def test_a_network_file_system_is_refused_by_name(kind: str) -> None:
    with pytest.raises(NetworkFileSystem, match=f"\\({kind}\\).*PostgreSQL"):
        refuse_network_file_system(Path("/x"), f"1 0 0:3 / / rw - {kind} source rw\n")


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs"])
def test_a_local_file_system_is_accepted(kind: str) -> None:
    refuse_network_file_system(Path("/x"), f"1 0 0:3 / / rw - {kind} source rw\n")


def test_a_link_is_followed_to_the_file_system_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "share")
    real = tmp_path.resolve() / "share"
    mounts = f"1 0 0:3 / / rw - ext4 disk rw\n2 1 0:4 / {real} rw - nfs server:/ rw\n"
    with pytest.raises(NetworkFileSystem):
        refuse_network_file_system(tmp_path / "link", mounts)
