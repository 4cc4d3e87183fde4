"""What `make release` asks of a commit, and what it leaves in dist/."""

import os
import subprocess
import sys

import pytest
from built import BUILD, ROOT, run

sys.path.insert(0, str(ROOT / "tools"))
import release


def test_a_release_is_a_tagged_commit(tmp_path):
    """Each reason against a release is named, and goes away when it is mended."""

    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=n@example.org", *words], check=True, capture_output=True)

    (tmp_path / "python/ingot").mkdir(parents=True)
    (tmp_path / "python/ingot/__init__.py").write_text('__version__ = "0.3.0"\n')
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## 0.3.0 (not released yet)\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    heading, tag = release.unready(tmp_path)
    assert "CHANGELOG.md begins with '0.3.0 (not released yet)': write '## 0.3.0 (YYYY-MM-DD)'" == heading and "no tag v0.3.0" in tag
    changelog.write_text("# Changelog\n\n## 0.3.0 (2026-12-01)\n")
    assert "1 files are not committed, the first is 'CHANGELOG.md'" in release.unready(tmp_path)[-1]
    git("commit", "-am", "release: 0.3.0")
    git("tag", "v0.3.0")
    assert release.unready(tmp_path) == []
    (tmp_path / "python/ingot/__init__.py").write_text('__version__ = "0.4.0"\n')
    git("commit", "-am", "after")
    assert len(release.unready(tmp_path)) == 2


def test_a_package_that_is_missing_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"has no torch_ingot-\*.whl: `make release` makes all packages"):
        release.finish(tmp_path)


@pytest.mark.skipif(not os.environ.get("INGOT_TEST_ALL"), reason="builds all packages: INGOT_TEST_ALL=1")
def test_what_is_in_dist(tmp_path):
    """All packages, the list of parts and the checksums, which hold; made again, the checksums are the same."""
    sums = []
    for name in ("one", "two"):
        out = tmp_path / name
        for kind in ([], ["--torch-tensorrt"], ["--tarball"], ["--sdist"]):
            run(sys.executable, ROOT / "tools/make_wheel.py", "--build", BUILD, "--out", out, *kind, cwd=tmp_path)
        said = run(sys.executable, ROOT / "tools/release.py", "--out", out, cwd=tmp_path)
        sums.append((out / "SHA256SUMS").read_text())
        assert said.endswith(sums[-1])
        assert run("sha256sum", "--check", "SHA256SUMS", cwd=out).count(": OK") == 5 == len(list(out.iterdir())) - 1
    assert sums[0] == sums[1]
