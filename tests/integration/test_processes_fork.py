"""Forks: a child opens everything anew, and holds nothing of its parent's."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages

PROGRAMS = Path(__file__).parent / "programs"
SETTINGS = Settings(wal_pregrow_megabytes=0)
CHILDREN = 25
PROMPTLY_S = 2.0


def answer_of(program: str, *arguments: str | Path) -> Any:
    command = [sys.executable, PROGRAMS / program, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=200)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Return the directory and the answer of a process that forked while it was committing."""
    directory = tmp_path_factory.mktemp("forks") / "ledger"
    return directory, answer_of("fork_while_committing.py", directory, "t", str(CHILDREN))


def test_forks_while_another_thread_commits_lose_and_repeat_nothing(
    forks: tuple[Path, Any],
) -> None:
    directory, answer = forks
    with Ledger(directory, SETTINGS, background=False) as ledger:
        found = [
            (message.producer_name, message.sequence_id, message.topic_offset)
            for message in ledger.topic("t").read_messages()
        ]
        assert ledger.check().sound
    assert set(map(tuple, answer["confirmed"])) <= set(found)
    # A child must not commit again what its parent was committing.
    assert len({each[:2] for each in found}) == len(found)


def test_children_forked_while_another_thread_commits_can_append(forks: tuple[Path, Any]) -> None:
    _, answer = forks
    assert not answer["failures"], "\n".join(answer["failures"])


def test_parent_and_child_do_not_trust_each_others_heads(tmp_path: Path) -> None:
    directory = tmp_path / "ledger"
    answer = answer_of("fork_in_turns.py", directory, "t")
    assert answer == {"offsets": list(range(7))}
    with Ledger(directory, SETTINGS, background=False) as ledger:
        assert [message.topic_offset for message in ledger.topic("t").read_messages()] == list(
            range(7)
        )
        assert ledger.check().sound


@pytest.fixture
def orphan_program(tmp_path: Path) -> Any:
    """Yield a process that forked a child inside its write transaction."""
    command = [sys.executable, str(PROGRAMS / "fork_and_hold.py"), str(tmp_path / "ledger"), "t"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    session, child = map(int, process.stdout.readline().split())
    try:
        yield process, session, child
    finally:
        process.kill()
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_a_child_of_a_killed_parent_holds_neither_its_locks_nor_its_session(
    tmp_path: Path, orphan_program: tuple[subprocess.Popen[str], int, int]
) -> None:
    process, session, child = orphan_program
    process.kill()
    process.wait()
    os.kill(child, 0)  # The child lives on.
    began = time.perf_counter()
    with Ledger(tmp_path / "ledger", SETTINGS, background=False) as ledger:
        offset = ledger.topic("t").append(NewMessages([b"next"], 1)).offset_start
        waited_s = time.perf_counter() - began
        assert ledger.sessions.forget_dead() == [session]
        assert ledger.check().sound
    assert offset == 2
    assert waited_s < PROMPTLY_S
