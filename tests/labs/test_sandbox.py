"""What code in the sandbox can reach and use. Skipped where nothing isolates (then lab-grade asks for --trusted)."""

import hashlib
import os
import shutil
import socket
import sys
import threading
import time
from contextlib import suppress

import psutil
import pytest

from dprepro.base.paths import NOTEBOOKS, ROOT
from dprepro.kit import labs_sandbox
from dprepro.kit.labs_sandbox import Limits, run

LIMITS = Limits(wall=60, cpu=30, memory=300, written=16, processes=16, output=2)


def works(way):
    if way == "unshare as a user":
        way = "unshare"
    return run(["-c", "print(1)"], b"", way=way, limits=LIMITS).output == b"1\n"


@pytest.fixture(scope="module", params=["unshare", "unshare as a user", "bubblewrap"])
def way(request):
    """Each way to isolate that works here; root takes another user, others a user namespace."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "unshare as a user":
            patch.setattr(labs_sandbox, "_is_root", lambda: False)
        if sys.platform != "linux" or not shutil.which(
            "bwrap" if request.param == "bubblewrap" else "unshare"
        ):
            pytest.skip(f"{request.param} is not installed")
        if not works(request.param):
            pytest.skip(f"{request.param} does not work here")
        yield request.param.split()[0]


def printed(code, way, limits=LIMITS, data=b""):
    ended = run(["-c", code], data, way=way, limits=limits)
    assert not ended.why, ended
    assert ended.status == 0, ended
    return ended.output.decode().strip()


def test_it_sees_python_and_nothing_of_the_repository_but_lib(way, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s")
    code = f"""
import os
hidden = {str(secret)!r}, {str(NOTEBOOKS)!r}, {str(ROOT / "build")!r}, "/etc/passwd", "/sys"
print([os.path.exists(path) for path in hidden])
print(os.listdir({str(ROOT)!r}))
print(os.listdir("."))
import dprepro.stats.laplace
"""
    lines = printed(code, way).splitlines()
    assert lines[0] == str([False] * 5)
    assert set(eval(lines[1])) <= {"lib", os.path.basename(sys.prefix)}
    assert lines[2] == "[]"


def test_it_cannot_write_but_to_its_own_folder(way, tmp_path):
    places = [
        str(ROOT / "lib" / "x"),
        f"{sys.prefix}/x",
        "/usr/x",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
    ]
    code = f"""
open("x", "w").write("x"); open("/tmp/x", "w").write("x")
for place in {places!r}:
    try:
        open(place, "w").write("x")
        print("wrote", place)
    except OSError as error:
        pass
"""
    assert printed(code, way) == ""


def test_it_cannot_undo_a_mount_or_become_another(way):
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
writable = 32 | 4096  # remount, bind; without read-only
def undo():
    print(libc.mount(b"none", b"{ROOT}/lib", None, writable, None), libc.umount2(b"{ROOT}/lib", 2), end=" ")
undo()
print(int(open("/proc/self/status").read().split("CapEff:")[1].split()[0], 16), end=" ")
try:
    os.setuid(0 if os.getuid() else 1)
    print("became", os.getuid())
except OSError:
    print("stays")
# Where the kernel lets it have namespaces of its own, they do not help.
if libc.unshare(0x10000000 | 0x20000) == 0:
    undo()
else:
    print(-1, -1, end="")
"""
    assert printed(code, way) == "-1 -1 0 stays\n-1 -1"


def test_it_has_no_network_and_sees_no_processes_but_its_own(way):
    code = """
import os, socket
for target in (("1.1.1.1", 53), ("127.0.0.1", 22)):
    try:
        socket.create_connection(target, timeout=2)
        print("connected", target)
    except OSError:
        pass
print(max(int(name) for name in os.listdir("/proc") if name.isdigit()) <= os.getpid())
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert printed(code.replace("22", str(listener.getsockname()[1])), way) == "True"


def test_our_environment_stays_outside(way, monkeypatch):
    monkeypatch.setenv("COURSE_TOKEN", "hunter2")
    assert "hunter2" not in printed("import os; print(os.environ)", way)


def test_time(way):
    start = time.monotonic()
    ended = run(["-c", "while True: pass"], b"", way=way, limits=Limits(wall=1))
    assert ended.why == "it ran over 1 s"
    assert time.monotonic() - start < 30


def test_cpu_time_of_one_process(way):
    ended = run(["-c", "while True: pass"], b"", way=way, limits=Limits(wall=60, cpu=1))
    assert ended.status != 0
    assert not ended.why


def test_memory_bomb(way):
    ended = run(["-c", "x = [bytearray(10**7) for _ in range(10**6)]"], b"", way=way, limits=LIMITS)
    assert ended.why == "it used over 300 MiB of memory" or "MemoryError" in ended.errors
    code = "try:\n  bytearray(10**13)\nexcept MemoryError:\n  print('refused')"
    assert printed(code, way) == "refused"


def test_memory_of_several_processes_together(way):
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = b"1" * (60 * 2**20)
        time.sleep(60)
time.sleep(60)
"""
    assert "memory" in run(["-c", code], b"", way=way, limits=LIMITS).why


def test_fork_bomb_leaves_nothing_alive(way, request):
    if request.node.callspec.params["way"] == "unshare as a user" and os.geteuid() == 0:
        pytest.skip(
            "the kernel sets no limit to root's processes: nothing but the watch would hold this bomb"
        )
    before = {process.pid for process in psutil.process_iter()}
    code = "import os\nwhile True:\n  try:\n    os.fork()\n  except OSError:\n    pass"
    ended = run(["-c", code], b"", way=way, limits=LIMITS)
    assert ended.why == "it had over 16 processes"
    assert ended.seconds < 30
    assert [p for p in psutil.process_iter() if p.pid not in before and "os.fork()" in command(p)] == []


def command(process):
    with suppress(psutil.Error):  # gone in the meantime, or dead and not yet waited for
        return " ".join(process.cmdline() or [])
    return ""


def test_written_bytes(way):
    code = """
import os
written = 0
for number in range(10):
    try:
        with open(f"f{number}", "wb") as stream:
            for _ in range(4):
                written += stream.write(b"x" * 2**20)
                stream.flush()
    except OSError:
        pass
print(written >> 20)
"""
    assert int(printed(code, way)) <= 16


def test_printed_bytes(way):
    ended = run(["-c", "while True: print('x' * 10**6)"], b"", way=way, limits=LIMITS)
    assert ended.why == "it printed over 2 MiB"
    assert len(ended.output) <= 3 << 20


def test_a_detached_process_ends_with_the_run(way):
    code = "import os, time\nif os.fork() == 0:\n  os.setsid(); os.close(1); time.sleep(300)\nprint('done')"
    start = time.monotonic()
    assert printed(code, way) == "done"
    assert time.monotonic() - start < 60
    assert not any(
        "time.sleep(300)" in " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])
    )


def test_it_can_be_stopped(way):
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    assert run(["-c", "import time; time.sleep(60)"], b"", way=way, limits=LIMITS, stop=stop).why == "stopped"


def test_data_arrives(way):
    data = os.urandom(10**6)
    code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    assert printed(code, way, data=data) == hashlib.sha256(data).hexdigest()


def test_without_isolation_time_still_ends_it():
    ended = run(["-c", "import time; time.sleep(60)"], b"", way="none", limits=Limits(wall=1))
    assert ended.why == "it ran over 1 s"


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="way must be one of"):
        run(["-c", ""], b"", way="docker", limits=LIMITS)
    with pytest.raises(ValueError, match="would be seen by the students' code"):
        labs_sandbox.check_hidden([ROOT / "lib" / "dprepro" / "submissions"])
    labs_sandbox.check_hidden([tmp_path])
