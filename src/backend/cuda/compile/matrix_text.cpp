#include "backend/cuda/compile/matrix_text.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "backend/cuda/compile/matrix_declarations.cuh.h"
#include "backend/cuda/compile/matrix_fragments.cuh.h"
#include "backend/cuda/compile/matrix_instructions.cuh.h"
#include "base/error.h"

namespace ingot::backend::cuda {

namespace {

// One instruction for each number of columns, since registers are named in the text.
std::string products(ir::DType of, bool along_k) {
  // An instruction reads 32 bytes of each row of A. The numbers after p are the signs, then whether the tiles are transposed, which is not possible for floats.
  const bool floats = of == ir::DType::f32;
  const std::string_view h = floats ? "f32" : of == ir::DType::f16 ? "f16" : "bf16";
  const std::string_view type = floats ? "tf32" : h, lie = floats ? "" : along_k ? ", 0" : ", 1";
  std::string out = "#ifdef INGOT_WARPGROUPS\n";
  auto add = [&](int columns) {
    const int n = columns / 2, k = floats ? 8 : 16;
    std::string places, sums;
    for (int e = 0; e < n; ++e) {
      places += fmt::format("{}%{}", e > 0 ? ", " : "", e);
      sums += fmt::format("{}\"+f\"(c[{}])", e > 0 ? ", " : "", e);
    }
    auto function = [&](std::string_view name, std::string_view a_type, const std::string& a, const std::string& b, const std::string& add, std::string_view turns,
                        const std::string& inputs) {
      out += fmt::format("  static __device__ __forceinline__ void {}(f32* c, {} a, u64 b, bool add) {{\n", name, a_type);
      out += fmt::format(
          "    asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, {}, 0;\\nwgmma.mma_async.sync.aligned.m64n{}k{}.f32.{}.{} {{{}}}, {}, {}, p, 1, 1{}{};\\n}}\"\n            "
          "     : {} : {}, \"r\"((int)add));\n  }}\n",
          add, columns, k, type, type, places, a, b, turns, lie, sums, inputs);
    };
    out += fmt::format("template <>\nstruct Multiplication<{}, {}, {}> {{\n", columns, along_k, h);
    function("tiles", "u64", fmt::format("%{}", n), fmt::format("%{}", n + 1), fmt::format("%{}", n + 2), floats ? "" : ", 0", "\"l\"(a), \"l\"(b)");
    if (!floats) {
      function("rows", "const u32*", fmt::format("{{%{}, %{}, %{}, %{}}}", n, n + 1, n + 2, n + 3), fmt::format("%{}", n + 4), fmt::format("%{}", n + 5), "",
               "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b)");
    }
    out += "};\n";
  };
  const std::initializer_list<int> of_floats = {64, 128, 160}, of_halves = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256};
  for (int columns : floats ? of_floats : of_halves) add(columns);
  return out + "#endif\n";
}

template <ir::DType type, bool along_k>
std::string_view products_text() {
  static const std::string text = products(type, along_k);
  return text;
}

// Floats are multiplied along K only.
struct {
  ir::DType type;
  bool along_k;
  CodeUnit::Library library;
} constexpr of_types[] = {{ir::DType::f16, true, products_text<ir::DType::f16, true>},
                          {ir::DType::f16, false, products_text<ir::DType::f16, false>},
                          {ir::DType::bf16, true, products_text<ir::DType::bf16, true>},
                          {ir::DType::bf16, false, products_text<ir::DType::bf16, false>},
                          {ir::DType::f32, true, products_text<ir::DType::f32, true>}};

}  // namespace

std::string_view matrix_instructions() {
  static const std::string all = std::string(matrix_instructions_cuh) + std::string(matrix_declarations_cuh);
  return all;
}

std::string_view matrix_text() { return matrix_fragments_cuh; }

std::vector<CodeUnit::Library> matrix_libraries(ir::DType type, std::initializer_list<bool> along_k) {
  std::vector<CodeUnit::Library> out{matrix_instructions};
  for (const auto& of : of_types) {
    if (of.type == type && std::find(along_k.begin(), along_k.end(), of.along_k) != along_k.end()) out.push_back(of.library);
  }
  out.push_back(matrix_text);
  return out;
}

bool has_group_products(const CodeUnit& unit) {
  return std::any_of(unit.libraries.begin(), unit.libraries.end(),
                     [](CodeUnit::Library x) { return std::any_of(std::begin(of_types), std::end(of_types), [&](const auto& of) { return of.library == x; }); });
}

}  // namespace ingot::backend::cuda
