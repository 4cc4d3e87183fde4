"""A process that runs many programs by one way, for an environment of its own (INGOT_ISA), or so that a crash does not end the caller. `run` starts one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(seeds, kinds, way: str, environment=None, timeout=3600):
    """The Tally of the programs of these seeds. If the process ends early, that is a failure of the seeds that it was running."""
    with tempfile.TemporaryDirectory() as folder:
        job, answer, progress = (Path(folder) / name for name in ("job", "answer", "progress"))
        job.write_bytes(pickle.dumps((list(seeds), kinds, way)))
        clean = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ, **(environment or {})}
        done = subprocess.run([sys.executable, HERE / "worker.py", job, answer, progress], env=clean, capture_output=True, text=True, timeout=timeout)
        if answer.exists():
            return pickle.loads(answer.read_bytes())
        busy = progress.read_text().splitlines()[-1] if progress.exists() else "none"
        raise RuntimeError(f"a process ended with {done.returncode} at the programs of seeds {busy} by {way}: {done.stderr[-2000:]}")


def main():
    import quiet  # first, because it silences torch's C++ messages
    import campaign
    import ways

    job, answer, progress = map(Path, sys.argv[1:])
    seeds, kinds, way = pickle.loads(job.read_bytes())
    tally = campaign.Tally()

    def note(group):
        with progress.open("a") as f:
            f.write(" ".join(str(p.seed) for p in group) + "\n")

    with quiet.hushed():
        campaign.run_all(campaign.grown(seeds, kinds), way, ways.ALL[way], tally, note=note)
    answer.write_bytes(pickle.dumps(tally))


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    sys.path.append(str(HERE.parents[1] / "python"))  # after a wheel that is tested
    main()
