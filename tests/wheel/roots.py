"""Empty roots of Debian's releases, made by debootstrap, and lines of shell that run in them. Both need root."""

import subprocess
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"


def make(root: Path, release: str, packages: str, mirror: str = MIRROR):
    """The release's least packages and these (names with commas), if the root is not there yet."""
    if not (root / "made").exists():
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={packages}", release, root, mirror], check=True)
        (root / "made").touch()


def works(root: Path, line: str, before: str) -> bool:
    """Runs a line in the root by its bash, after the lines `before`, and prints it, with what it said if it failed."""
    # The loader finds a program's own folder by /proc.
    inside = ["unshare", "-m", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', root]
    done = subprocess.run([*inside, "bash", "-eu", "-c", f"{before}\n{line}"], capture_output=True, text=True)
    print("ok   " if done.returncode == 0 else "FAILS", line, flush=True)
    if done.returncode:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode == 0
