#!/usr/bin/env bash
# What cmake/portable.cmake compiles with, in build/portable-tools: PyPI's zig, the headers of Debian's packages without those of its glibc, Debian's simdjson as a static library, and
# the names of GCC's unwinder. Run by `make portable`; does nothing that is done already. `tools/portable.sh aarch64`: in build/portable-tools-aarch64, with GoogleTest.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
case $arch in
x86_64) tools=$PWD/build/portable-tools toolchain=portable ;;
aarch64) tools=$PWD/build/portable-tools-$arch toolchain=portable_$arch ;;
*) echo "there is no portable build for $arch: x86_64 or aarch64" >&2 && exit 2 ;;
esac
target=$arch-linux-gnu.2.28
if [ -e "$tools/ready" ] && [ "$tools/ready" -nt "$0" ] && [ "$tools/ready" -nt cmake/unwinder.map ]; then exit; fi
rm -rf "$tools"
mkdir -p "$tools"/{bin,usr/include,usr/lib,source/lists/partial}

python3 -m venv "$tools/zig"
"$tools/zig/bin/pip" install -q ziglang==0.17.1
zig=$(echo "$tools"/zig/lib/python3*/site-packages/ziglang/zig)
for name in clang:cc clang++:c++; do  # by the names that ccache knows
  printf '#!/bin/sh\nexec "%s" %s -target %s "$@"\n' "$zig" "${name#*:}" $target >"$tools/bin/${name%:*}"
done
for name in ar ranlib; do printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" $name >"$tools/bin/$name"; done
chmod +x "$tools"/bin/*

for header in fmt flatbuffers CLI xxhash.h; do ln -s "/usr/include/$header" "$tools/usr/include/"; done

grep -oE '_Unwind_[A-Za-z_]+' cmake/unwinder.map | sed 's/.*/void &(void) {}/' >"$tools/unwinder.c"
"$tools/bin/clang" -shared -nostdlib "$tools/unwinder.c" -Wl,-soname,libgcc_s.so.1 -Wl,--version-script=cmake/unwinder.map -o "$tools/usr/lib/libgcc_s.so.1"

. /etc/os-release
echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" >"$tools/source/debian.list"
apt="apt-get -qq -o Dir::Etc::SourceList=$tools/source/debian.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$tools/source/lists -o APT::Sandbox::User=$(id -un)"
$apt update
(cd "$tools/source" && $apt source --download-only "simdjson=$(dpkg-query -W -f='${source:Version}' libsimdjson-dev)" && mkdir simdjson && tar -xzf simdjson_*.orig.tar.gz -C simdjson --strip-components=1)
library() {  # of a folder of sources, static, into $tools/usr
  cmake -G Ninja -S "$1" -B "$tools/source/built/$2" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/$toolchain.cmake" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DCMAKE_CXX_FLAGS=-w --log-level=WARNING
  cmake --build "$tools/source/built/$2" -j 2 -- --quiet
  cmake --install "$tools/source/built/$2" --prefix "$tools/usr" >/dev/null
}
library "$tools/source/simdjson" simdjson
if [ $arch != x86_64 ]; then library /usr/src/googletest googletest; fi
rm -rf "$tools/source"
touch "$tools/ready"
