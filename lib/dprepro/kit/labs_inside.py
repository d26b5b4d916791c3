"""Inside the sandbox: build a file system that shows almost nothing, set limits, give up all rights, run a command.

Run by `unshare` (or by bubblewrap, which has built the file system already) as a script, with the standard library
alone, before any of a student's code exists: ``python -I -S labs_inside.py '{"paths": [...], ...}'``. Linux only.

What is left afterwards: the paths that were named, read-only; an empty working folder in memory; a /proc of its own
processes. The old root is unmounted, so nothing else can be reached by any path. Mounting and pivoting follow
bubblewrap's order (https://github.com/containers/bubblewrap).
"""

import ctypes
import json
import os
import resource
import sys
from typing import Any

# <sys/mount.h> and <linux/prctl.h>
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
NOATIME, NODIRATIME, RELATIME = 1024, 2048, 1 << 21
DETACH = 2
CAPBSET_DROP, NO_NEW_PRIVS = 24, 38
WORK = "/home/student"

_libc = ctypes.CDLL(None, use_errno=True)


def _call(function: str, *arguments: Any) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function} {arguments}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Call mount(2), whose arguments these are in its order; OSError if the kernel refuses."""
    encoded = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _call("mount", encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])


def build_root(paths: list[str], size: int, owner: int | None) -> None:
    """Make a new root that holds `paths`, read-only, and `size` bytes of memory to write to; leave the old one.

    `owner` is the number of the user and group to whom the folders to write to belong; None leaves them as they are.
    """
    mount("none", "/", None, REC | PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, f"size={size},nr_inodes=20k,mode=755")
    os.makedirs("/tmp/new")
    os.makedirs("/tmp/old")
    _call("pivot_root", b"/tmp", b"/tmp/old")
    os.chdir("/")
    mount("/new", "/new", None, BIND)
    # Its own file system, so that what a student writes cannot fill the root.
    mount("tmpfs", "/new", "tmpfs", NOSUID | NODEV, f"size={size},nr_inodes=20k,mode=755")
    for path in paths:
        _show(path)
    for name in ("null", "zero", "full", "random", "urandom"):
        target = f"/new/dev/{name}"
        os.makedirs("/new/dev", exist_ok=True)
        open(target, "w").close()
        mount(f"/old/dev/{name}", target, None, BIND)
    os.makedirs("/new/proc")
    mount("proc", "/new/proc", "proc", NOSUID | NODEV | NOEXEC)
    _forbid_new_namespaces(owner)
    for name in ("sys", "sysrq-trigger", "irq", "bus"):  # root of the host could write these
        if os.path.exists(f"/new/proc/{name}"):
            mount(f"/new/proc/{name}", f"/new/proc/{name}", None, BIND)
            mount("none", f"/new/proc/{name}", None, BIND | REMOUNT | RDONLY | NOSUID | NODEV | NOEXEC)
    for folder in (WORK, "/tmp", "/dev/shm"):
        os.makedirs(f"/new{folder}", exist_ok=True)
        os.chmod(f"/new{folder}", 0o700)
        if owner is not None:
            os.chown(f"/new{folder}", owner, owner)
    os.chdir("/new")
    _call("pivot_root", b".", b".")
    _call("umount2", b".", DETACH)
    os.chdir("/")


def _show(path: str) -> None:
    """Bind one path of the old root, which a symbolic link stays, and all mounts below it, read-only."""
    old, new = f"/old{path}", f"/new{path}"
    if not os.path.lexists(old) or os.path.lexists(new):
        return
    os.makedirs(os.path.dirname(new), exist_ok=True)
    if os.path.islink(old):
        os.symlink(os.readlink(old), new)
        return
    if os.path.isdir(old):
        os.mkdir(new)
    else:
        open(new, "w").close()
    mount(old, new, None, BIND | REC)
    with open("/old/proc/self/mountinfo") as lines:
        points = [line.split()[4].replace("\\040", " ") for line in lines]
    for point in points:
        if point == new or point.startswith(new + "/"):
            # Flags that the outer system set are locked and must be repeated.
            flags = os.statvfs(point).f_flag & (NOSUID | NODEV | NOEXEC | NOATIME | NODIRATIME | RELATIME)
            mount("none", point, None, BIND | REMOUNT | RDONLY | flags | NOSUID | NODEV)


def _forbid_new_namespaces(owner: int | None) -> None:
    # In a user namespace the limit is that namespace's own; without one it would be the host's.
    if owner is None:
        with open("/new/proc/sys/user/max_user_namespaces", "w") as limit:
            limit.write("0")


def drop_rights(owner: int | None) -> None:
    """Become a user without any rights, for good."""
    _call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(64):
        _libc.prctl(CAPBSET_DROP, capability, 0, 0, 0)  # fails beyond the last one that the kernel knows
    if owner is not None:
        os.setgroups([])
        os.setresgid(owner, owner, owner)
        os.setresuid(owner, owner, owner)
    header, empty = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _call("capset", header, empty)


def set_limits(limits: dict[str, int]) -> None:
    """Set limits by their names in `resource`, such as {"AS": 4096}, never above those that hold already."""
    for name, value in {**limits, "CORE": 0}.items():
        which = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def main() -> None:
    """Do what the argument says; the process ends with the command's status."""
    job = json.loads(sys.argv[1])
    if job["build"]:
        build_root(job["paths"], job["size"], job["owner"])
    set_limits(job["limits"])
    if job["isolated"]:
        drop_rights(job["owner"])
        os.chdir(WORK)
    child = os.fork()
    if child == 0:
        os.execve(job["command"][0], job["command"], job["environment"])
    while True:  # as process 1: bury the orphans, and end everything with the command
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 255)


if __name__ == "__main__":
    main()
