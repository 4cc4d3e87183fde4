"""Programs in forks of a process that has torch behave as those of `python -c`."""

import os
import subprocess
import time

import fresh
import pytest


def test_a_program_is_alone_and_has_what_it_is_given(tmp_path):
    code = "import os, sys; print(sys.argv, 'torch' in sys.modules, 'ingot' in sys.modules, os.getcwd(), os.environ['GIVEN']); print('e', file=sys.stderr); sys.exit(3)"
    done = fresh.run(code, "a", 5, env={**os.environ, "GIVEN": "b"}, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"['-c', 'a', '5'] True False {tmp_path} b\n", "e\n")
    assert fresh.run("import os, __main__; print(os.environ.get('GIVEN'), hasattr(__main__, 'done')); done = 1").stdout == "None False\n"


@pytest.mark.parametrize("code, status", [("import os; os.abort()", -6), ("1 / 0", 1), ("raise SystemExit('why')", 1), ("import os; os._exit(7)", 7), ("", 0)])
def test_how_it_ends(code, status):
    done = fresh.run(code)
    assert done.returncode == status and ("ZeroDivisionError" in done.stderr) == ("/" in code) and ("why" in done.stderr) == ("why" in code)
    if status:
        with pytest.raises(subprocess.CalledProcessError):
            fresh.run(code, check=True)


def test_what_runs_at_the_end():
    assert fresh.run("import atexit, threading, time\natexit.register(print, 'end')\nthreading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()").stdout == "thread\nend\n"


def test_one_that_hangs_is_ended_and_the_next_runs():
    fresh.run("")
    begin = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        fresh.run("import time; time.sleep(300)", timeout=1)
    assert time.monotonic() - begin < 200 and fresh.run("print(1)").stdout == "1\n"
