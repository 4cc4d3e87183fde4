"""Kills processes that build and take plans in one cache, at random moments, and says what it found: torn entries, wrong results, files that nobody collects.

    python tests/robustness/cache_kills.py [--kills 10000] [--disk roomy,short-files,full] [--seed 0]

Children of a process that has torch imported build eight small models in a loop: one time in ten through `ingot.compile`, else by the library from a captured graph, which is faster than torch's
capture. Each compares the results with those of a build without the cache, bit for bit. In turn one child is killed after a random time, or all of them as soon as a file is begun. After each kill
`ingot cache verify` reads the whole folder. The budget has room for about half of the plans, so plans go and come all the time.

`roomy`: a disk with room. `short-files`: each child has a random RLIMIT_FSIZE, so writes end early. `full`: a file system of its own (tmpfs; needs root), which other files fill and
leave again. Exits with 1 if anything was found.
"""

import argparse
import collections
import ctypes
import mmap
import os
import random
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import torch

import ingot
from ingot.engine import _library

COMMAND = os.path.join(os.path.dirname(_library.find("libingot.so.0")), "ingot")
KINDS, CHILDREN = 8, 3
RIGHT, WRONG, FAILED = 0, 3, 4
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def model(kind):
    torch.manual_seed(kind)
    width = 8 + 4 * kind
    layers = [m for _ in range(1 + kind) for m in (torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width))]
    return torch.nn.Sequential(torch.nn.Linear(8, width), *layers, torch.nn.Linear(width, 4)).eval().requires_grad_(False)


class Counts:
    """Numbers that all children add to: plans built and plans taken by the library."""

    def __init__(self):
        self.memory = mmap.mmap(-1, mmap.PAGESIZE)

    def add(self, at):  # a child that is killed meanwhile loses one at most
        struct.pack_into("<Q", self.memory, 8 * at, self[at] + 1)

    def __getitem__(self, at):
        return struct.unpack_from("<Q", self.memory, 8 * at)[0]


BUILT, TAKEN = 0, 1


class Begun:
    """Waits until a file is created in a folder (inotify)."""

    CREATE = 0x100

    def __init__(self, folder):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or self.libc.inotify_add_watch(self.fd, os.fsencode(folder), self.CREATE) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def wait(self, seconds):
        while select.select([self.fd], [], [], 0)[0]:  # those that are over
            os.read(self.fd, 1 << 16)
        select.select([self.fd], [], [], seconds)

    def close(self):
        os.close(self.fd)


class Campaign:
    def __init__(self, folder, disk):
        self.folder, self.disk = Path(folder), disk
        self.counts, self.found = Counts(), collections.Counter()
        x = self.x = torch.ones(3, 8)
        self.programs = [torch.export.export(model(kind), (x,)) for kind in range(KINDS)]
        self.captured = [self.capture(p) for p in self.programs]
        self.right = [ingot.compile(p, min_block_size=1, cache="off")(x) for p in self.programs]
        for kind in range(KINDS):
            self.build(kind, 1 << 30, captured=True)
        sizes = [p.stat().st_size for p in self.entries()]
        self.budget, self.largest = sum(sizes) // 2, max(sizes)
        for p in self.entries():
            p.unlink()
        self.children, self.unfinished = [], 0

    def entries(self):
        return [p for p in self.folder.iterdir() if len(p.name) == 64]

    def leftovers(self):
        return [p for p in self.folder.iterdir() if p.name.endswith(".tmp")]

    def capture(self, program):
        with tempfile.NamedTemporaryFile(suffix=".pt2") as file:  # not in the folder, which may be a small disk
            torch.export.save(program, file.name)
            return _library.Model.open(file.name)

    def build(self, kind, budget, captured):
        """Whether the plan was right; counts it."""
        options = {"min_block_size": 1, "cache": "readwrite", "cache_dir": str(self.folder), "cache_bytes": budget}
        if not captured:
            return torch.equal(ingot.compile(self.programs[kind], **options)(self.x), self.right[kind])
        stages = []
        plan = self.captured[kind].compile(options, lambda *stage: stages.append(stage))
        self.counts.add(BUILT if stages else TAKEN)
        return numpy.array_equal(ingot.Engine(plan).session().run(self.x.numpy())[0], self.right[kind].numpy())

    def start(self, seed):
        child = os.fork()
        if child:
            self.children.append(child)
            return
        code = FAILED
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # "plans are not cached" is right on a full disk
            draw = random.Random(seed)
            if self.disk == "short-files":
                limit = draw.randrange(1, 2 * self.largest)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            while self.build(draw.randrange(KINDS), self.budget, captured=draw.random() < 0.9):
                pass
            code = WRONG
        finally:
            os._exit(code)

    def kill(self, children):
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            status = os.waitpid(child, 0)[1]
            self.children.remove(child)
            self.found["killed"] += 1
            if not os.WIFSIGNALED(status):
                self.found["wrong results" if os.WEXITSTATUS(status) == WRONG else "errors"] += 1
            elif os.WTERMSIG(status) != signal.SIGKILL:
                self.found["crashes"] += 1

    def verify(self):
        done = subprocess.run([COMMAND, "cache", "verify", "--dir", str(self.folder)], capture_output=True, text=True)
        if done.returncode:
            self.found["torn entries"] += 1
            print(done.stdout, done.stderr, flush=True)

    def fill(self, draw):
        """On a disk of its own: files of another program take all of the room, or some of it, or none."""
        ballast = self.folder.parent / "ballast"
        ballast.unlink(missing_ok=True)
        room = os.statvfs(self.folder)
        taken = draw.choice([0, draw.randrange(room.f_bavail + 1), room.f_bavail])
        if taken:
            with open(ballast, "wb") as f:
                try:
                    os.posix_fallocate(f.fileno(), 0, taken * room.f_frsize)
                except OSError:  # the children were faster
                    pass
        self.found["times the disk was full"] += os.statvfs(self.folder).f_bavail == 0

    def run(self, kills, seed):
        draw, begun, last = random.Random(seed), Begun(self.folder), time.monotonic()
        while self.found["killed"] < kills:
            while len(self.children) < CHILDREN:
                self.start(draw.random())
            if self.disk == "full" and draw.random() < 0.1:
                self.fill(draw)
            if draw.random() < 0.5:
                time.sleep(draw.random() * 0.05)
                self.kill([draw.choice(self.children)])
            else:
                begun.wait(0.2)
                self.kill(list(self.children))
                left = len(self.leftovers())
                self.unfinished += left
                self.found["most unfinished files"] = max(self.found["most unfinished files"], left)
            self.verify()
            if time.monotonic() > last + 60:
                last = time.monotonic()
                print(dict(self.found), flush=True)
        self.kill(list(self.children))
        begun.close()

    def end(self):
        """What is left when every plan was built once more, by a process that nobody kills."""
        (self.folder.parent / "ballast").unlink(missing_ok=True)
        for kind in range(KINDS):
            self.found["wrong results"] += not self.build(kind, self.budget, captured=True)
        self.verify()
        self.found["files that nobody collected"] = len([p for p in self.folder.iterdir() if p.name != "entries.lock" and p not in self.entries()])
        self.found["bytes over the budget"] = max(0, sum(p.stat().st_size for p in self.entries()) - self.budget)


BAD = ("torn entries", "wrong results", "errors", "crashes", "files that nobody collected", "bytes over the budget")


def campaign(disk, kills, seed):
    """In a process of its own: it may mount a file system, which ends with it."""
    folder = Path(tempfile.mkdtemp())
    try:
        if disk == "full":
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(0x20000) or subprocess.run(["mount", "--make-rprivate", "/"]).returncode or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", folder]).returncode:
                sys.exit("`--disk full` mounts a file system: run it as root, or leave it out")
        os.mkdir(folder / "kept", 0o700)
        torch.set_num_threads(1)
        begin = time.monotonic()
        made = Campaign(folder / "kept", disk)
        made.run(kills, seed)
        made.end()
        said = {"kills": made.found["killed"], "plans built": made.counts[BUILT], "plans taken": made.counts[TAKEN], "unfinished files after kills": made.unfinished}
        if disk == "full":
            said["times the disk was full"] = made.found["times the disk was full"]
        print(f"{disk}: " + ", ".join(f"{v} {k}" for k, v in {**said, **{k: made.found[k] for k in BAD}}.items()) + f"; {time.monotonic() - begin:.0f} s", flush=True)
        return not any(made.found[k] for k in BAD)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=10_000, help="on each disk")
    parser.add_argument("--disk", default="roomy,short-files,full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        sys.exit(not campaign(args.one, args.kills, args.seed))
    ends = [subprocess.run([sys.executable, "-W", "ignore", __file__, "--one", disk, "--kills", str(args.kills), "--seed", str(args.seed)]).returncode for disk in args.disk.split(",")]
    sys.exit(any(ends))


if __name__ == "__main__":
    main()
