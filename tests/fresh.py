"""Python programs in processes of their own that need not import torch first: for each, a process that has imported it forks. A program starts in milliseconds, and not in the four seconds of a processor that torch and its
exporter take.

As in a process of `python -c`, ingot is not imported, nothing of torch has run, and standard output and errors are the program's own. What differs: text has the hashes that it has in the other programs,
the memory of torch's import is shared, and a program ends after its threads and what `atexit` knows: Python does not take its objects apart, which takes seconds too. Tests of these start `python -c` themselves."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile

# Read by the loader, Python or torch before a program starts: programs that differ in them have a server each.
READ_AT_START = ("LD_", "PYTHON", "OMP_", "KMP_", "GOMP_", "MKL_", "MALLOC_", "GLIBC_", "CUDA_", "NVIDIA_", "TORCH")
LONGEST_REQUEST = 1 << 20  # bytes: text of a program, and the environment

_servers: dict[tuple, Server] = {}


class Server:
    """A process with torch, which forks for each program."""

    def __init__(self, environment):
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST_REQUEST)
        self.process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], env=environment, pass_fds=[theirs.fileno()])
        theirs.close()

    def run(self, request, files, timeout):
        socket.send_fds(self.channel, [pickle.dumps(request)], [file.fileno() for file in files])
        self.channel.settimeout(None)
        child = self.receive()
        self.channel.settimeout(timeout)
        try:
            return self.receive()
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self.channel.settimeout(None)
            self.receive()
            raise

    def receive(self):
        answer = self.channel.recv(LONGEST_REQUEST)
        if not answer:
            raise RuntimeError(f"the process that forks for programs ended with {self.process.wait()}")
        return int(answer)

    def end(self):
        self.channel.close()
        self.process.wait()


def run(code, *arguments, env=None, cwd=None, timeout=600, check=False, warnings=True) -> subprocess.CompletedProcess:
    """Runs the text of a program as `python -c` does, with these arguments. Returns its exit status and, as text, what it wrote.

    env: its whole environment, or None for this process's. timeout: seconds. check: any status but 0 raises CalledProcessError. warnings: False for `python -W ignore`."""
    environment = {name: str(value) for name, value in (os.environ if env is None else env).items()}
    key = tuple(sorted((name, value) for name, value in environment.items() if name.startswith(READ_AT_START)))
    if key not in _servers:
        _servers[key] = Server(environment)
        atexit.register(_servers[key].end)
    command = ["python", *([] if warnings else ["-W", "ignore"]), "-c", code, *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            status = _servers[key].run((code, command[-len(arguments) :] if arguments else [], environment, str(cwd or os.getcwd()), warnings), (out, err), timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(command, timeout) from None
        done = subprocess.CompletedProcess(command, status, *(file.seek(0) or file.read() for file in (out, err)))
    if check:
        done.check_returncode()
    return done


def _next(channel):
    """In the server: forks for each request until nobody asks; in a child: the request."""
    while True:
        message, files, _, _ = socket.recv_fds(channel, LONGEST_REQUEST, 2)
        if not message:
            os._exit(0)
        child = os.fork()
        if child == 0:
            channel.close()
            for number, file in enumerate(files, 1):
                os.dup2(file, number)
                os.close(file)
            return pickle.loads(message)
        for file in files:
            os.close(file)
        channel.send(b"%d" % child)
        channel.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    import threading
    import traceback
    import types
    import warnings

    import torch._dynamo
    import torch.export  # noqa: F401

    sys.path[0] = ""  # as for `python -c`
    code, arguments, environment, folder, warn = _next(socket.socket(fileno=int(sys.argv[1])))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    if not warn:
        warnings.simplefilter("ignore")
    sys.modules["__main__"] = types.ModuleType("__main__")
    status = 0
    try:
        exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
