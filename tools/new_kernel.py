"""Writes a new kernel: its definition and arguments, a CPU implementation that only copies, and a test. Registers definition and implementation. The conformance test fails until the
definition's random case is a graph that contains the kernel.

    make new-kernel NAME=roll
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

FILES = {
    "kernels/{name}/{name}.cpp": '''#include "kernels/definition.h"
#include "kernels/random_case.h"
#include "kernels/{name}/run/{name}_args.h"

namespace ingot::kernels {{

namespace {{

PlainStep plain(const ir::Graph&, const ir::Node& node) {{ return {{serialise({Name}Args{{static_cast<uint8_t>(node.attributes.integer("axis"))}})}}; }}

// A random graph that contains the kernel's primitive. Until it does, the conformance test fails, because no plan has the kernel.
ir::Graph random_case(std::mt19937& random) {{
  RandomCase c(random);
  c.output("y", c.input("x", ir::DType::f32, c.dims(2)));
  return c.take();
}}

}}  // namespace

// The empty braces list the primitives that become such steps, by their lines in ir/prim.def.
extern const Definition {name}_definition;
const Definition {name}_definition{{"{name}", {{{{Role::input}}, {{Role::output}}}}, {{}}, plain, nullptr, random_case}};

}}  // namespace ingot::kernels
''',
    "backend/cpu/kernels/{name}/{name}.cpp": '''#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {{

void {name}_offers(const Site& site, const Settings&, Offers& out) {{ offer_plain(site, {{"{name}"}}, "lines", out); }}

}}  // namespace ingot::backend::cpu
''',
    "kernels/{name}/run/{name}_args.h": '''// Arguments of the "{name}" step.
//
// operands = in, out (written): the same dtype and dims, any strides. sizes = none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {{

struct {Name}Args {{
  uint8_t axis = 0;
}};
std::vector<std::byte> serialise(const {Name}Args&);
{Name}Args parse_{name}(std::span<const std::byte>);

}}  // namespace ingot::kernels
''',
    "kernels/{name}/run/{name}_args.cpp": '''#include "kernels/{name}/run/{name}_args.h"

#include "base/error.h"

namespace ingot::kernels {{

std::vector<std::byte> serialise(const {Name}Args& a) {{ return {{std::byte{{a.axis}}}}; }}

{Name}Args parse_{name}(std::span<const std::byte> bytes) {{
  if (bytes.size() != 1) fail(Code::format, "a {name} step has wrong constants");
  return {{static_cast<uint8_t>(bytes[0])}};
}}

}}  // namespace ingot::kernels
''',
    "backend/cpu/kernels/{name}/run/{name}.cpp": '''#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/run/elements.h"
#include "kernels/{name}/run/{name}_args.h"

namespace ingot::kernels {{

namespace {{

std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {{
  auto args = std::make_shared<{Name}Args>(parse_{name}(constants));
  if (operands != 2 || sizes != 0) fail(Code::format, "a {name} step has {{}} operands and {{}} sizes", operands, sizes);
  return args;
}}

// Checks the operands, so that run() cannot leave them, whatever the plan contains.
Resolved resolve(const Call& call) {{
  const auto& args = *static_cast<const {Name}Args*>(call.constants);
  const TensorRef &in = call.operands[0], &out = call.operands[1];
  bool same = in.dtype == out.dtype && in.rank == out.rank && in.rank <= max_rank && std::equal(in.dims, in.dims + in.rank, out.dims);
  if (!same || args.axis >= in.rank) fail(Code::format, "the operands of a {name} do not fit");
  return {{}};
}}

void run(const Call& call) {{
  const int axis = static_cast<const {Name}Args*>(call.constants)->axis;
  const TensorRef &in = call.operands[0], &out = call.operands[1];
  for_lines(in, axis, *call.workers, [&](const int64_t* at, int) {{
    int64_t from = 0, to = 0;
    for (int d = 0; d < in.rank; ++d) {{
      from += d == axis ? 0 : at[d] * in.strides[d];
      to += d == axis ? 0 : at[d] * out.strides[d];
    }}
    for (int64_t i = 0; i < in.dims[axis]; ++i) std::memcpy(element(out, to + i * out.strides[axis]), element(in, from + i * in.strides[axis]), ir::size_of(in.dtype));
  }});
}}

}}  // namespace

std::span<const RunKernel> {name}_cpu_kernels() {{
  static constexpr RunKernel list[] = {{{{"{name}", load, resolve, run}}}};
  return list;
}}

}}  // namespace ingot::kernels
''',
    "backend/cpu/kernels/{name}/{name}_test.cpp": '''#include "kernels/{name}/run/{name}_args.h"

#include <gtest/gtest.h>

#include "backend/cpu/kernels/kernel_test.h"
#include "base/error.h"

namespace ingot::kernels {{
namespace {{

TEST({name}, whatever_the_strides) {{
  for (bool transposed : {{false, true}}) {{
    TestTensor in(ir::DType::f32, {{3, 5}}, transposed ? std::vector<size_t>{{1, 0}} : std::vector<size_t>{{}}), out(ir::DType::f32, {{3, 5}}, {{}}, {{}}, 2);
    in.each([&](const std::vector<int64_t>& at) {{ in.put(at, static_cast<double>(10 * at[0] + at[1])); }});
    run_kernel("{name}", serialise({Name}Args{{1}}), {{&in, &out}}, {{}}, inline_workers());
    EXPECT_EQ(out.values(), in.values());
    EXPECT_TRUE(out.untouched_outside());
  }}
}}

TEST({name}, operands_that_do_not_fit_are_refused) {{
  TestTensor in(ir::DType::f32, {{3, 5}}), out(ir::DType::f32, {{5, 3}});
  EXPECT_THROW(run_kernel("{name}", serialise({Name}Args{{1}}), {{&in, &out}}, {{}}, inline_workers()), Error);
  EXPECT_THROW(run_kernel("{name}", serialise({Name}Args{{2}}), {{&in, &in}}, {{}}, inline_workers()), Error);
  EXPECT_THROW(parse_{name}({{}}), Error);
}}

}}  // namespace
}}  // namespace ingot::kernels
''',
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the kernel's name in plans, in lower case")
    name = parser.parse_args().name
    root = Path(__file__).resolve().parents[1]
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        sys.exit(f"{name!r} is not a name for a kernel: use lower case letters, digits and single underscores")
    if (root / "src/kernels" / name).exists():
        sys.exit(f"src/kernels/{name} is there already")
    words = {"name": name, "Name": "".join(w.capitalize() for w in name.split("_"))}
    for file, text in FILES.items():
        path = root / "src" / file.format(**words)
        path.parent.mkdir(parents=True, exist_ok=True)
        # clang-format's order of includes depends on the name
        path.write_text(re.sub(r'(#include "[^\n]*\n)+', lambda block: "".join(sorted(block[0].splitlines(keepends=True))), text.format(**words)))
    lists = {"kernels/definitions.cpp": (" X(scatter_along)", f" X({name})"), "backend/cpu/run/kernels.def": ("X(scatter)\n", f"X({name})\n")}
    for file, (after, line) in lists.items():
        path = root / "src" / file
        text = path.read_text()
        at = text.index(after) + len(after)
        path.write_text(text[:at] + line + text[at:])
    print(f"src/kernels/{name} and src/backend/cpu/kernels/{name} are written and registered in src/kernels/definitions.cpp and src/backend/cpu/run/kernels.def.\n"
          f"Then: cmake --build build/release --target test_backend_cpu test_compile && build/release/test_backend_cpu --gtest_filter='{name}.*'\n"
          f"and build/release/test_compile --gtest_filter='Conformance.*', which fails until src/kernels/{name}/{name}.cpp has a random case.")  # fmt: skip


if __name__ == "__main__":
    main()
