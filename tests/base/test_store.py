"""Hashes depend on content alone; a write is whole or absent."""

import errno
import hashlib
import os
import shutil
from pathlib import Path

import pytest

from dprepro.base import store

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


def test_bytes_and_file_match_the_standard(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert store.sha256_bytes(b"abc") == ABC
    assert store.sha256_file(tmp_path / "f") == ABC


def test_json_ignores_key_order_and_refuses_nan() -> None:
    assert store.sha256_json({"a": 1, "b": [2.5]}) == store.sha256_json({"b": [2.5], "a": 1})
    assert store.sha256_json({"a": 1}) != store.sha256_json({"a": 1.5})
    assert store.sha256_json([]) == hashlib.sha256(b"[]").hexdigest()
    with pytest.raises(ValueError):
        store.sha256_json({"a": float("nan")})
    with pytest.raises(TypeError):
        store.sha256_json(Path("x"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.py").write_text("a = 1\n")
    (folder / "sub" / "b.py").write_text("b = 2\n")
    return folder


def test_tree_is_the_same_elsewhere_and_at_another_time(tree: Path, tmp_path: Path) -> None:
    before = store.sha256_tree([tree])
    copy = tmp_path / "elsewhere" / "tree"
    shutil.copytree(tree, copy)
    os.utime(copy / "a.py", (0, 0))
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert store.sha256_tree([copy]) == before
    assert store.sha256_tree([tree / "sub", tree / "a.py"]) == store.sha256_tree(
        [tree / "a.py", tree / "sub"]
    )


def _edit(tree: Path) -> None:
    (tree / "a.py").write_text("a = 2\n")


def _add(tree: Path) -> None:
    (tree / "c.py").touch()


def _remove(tree: Path) -> None:
    (tree / "a.py").unlink()


def _rename(tree: Path) -> None:
    (tree / "a.py").rename(tree / "z.py")


def _swap(tree: Path) -> None:
    (tree / "a.py").write_text("b = 2\n")
    (tree / "sub" / "b.py").write_text("a = 1\n")


@pytest.mark.parametrize("change", [_edit, _add, _remove, _rename, _swap])
def test_tree_notices_every_change(tree: Path, change: object) -> None:
    before = store.sha256_tree([tree])
    change(tree)  # type: ignore[operator]
    assert store.sha256_tree([tree]) != before


def test_missing_path_is_an_error_not_an_empty_tree(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.sha256_tree([tmp_path / "none"])


def test_write_creates_folders_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "x" / "y" / "f.txt"
    store.write_atomic(target, "é\r\n")
    assert target.read_bytes() == "é\r\n".encode()
    store.write_atomic(target, b"second")
    assert target.read_bytes() == b"second"
    assert [p.name for p in target.parent.iterdir()] == ["f.txt"]


def test_written_file_has_the_permissions_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    store.write_atomic(tmp_path / "atomic", "")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_failed_write_keeps_the_old_file_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    target = tmp_path / "f"
    target.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="DPREPRO_BUILD") as caught:
        store.write_atomic(target, "new")
    assert str(tmp_path) in str(caught.value)
    assert caught.value.errno == code
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="DPREPRO_BUILD"):
        store.write_atomic(tmp_path / "file" / "f", "x")


def test_interrupt_in_mid_write_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write_atomic(tmp_path / "f", "x")
    assert list(tmp_path.iterdir()) == []


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "new" / ".lock"
    with store.locked(lock, "busy"):
        with (
            pytest.raises(
                BlockingIOError, match=rf"^busy: process {os.getpid()} on .*, since 2.*; wait for it"
            ),
            store.locked(lock, "busy"),
        ):
            pass
        (tmp_path / "new" / ".lock.json").write_text("{")
        with (
            pytest.raises(BlockingIOError, match="busy: a process that has just started"),
            store.locked(lock, "busy"),
        ):
            pass
    with store.locked(lock, "busy"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="DPREPRO_BUILD"), store.locked(tmp_path / "file" / ".lock", "busy"):
        pass
