#include "backend/cuda/compile/reduction_text.h"

#include "backend/cuda/compile/expression.h"

namespace ingot::backend::cuda {

using Variant = kernels::FusedCudaArgs::Variant;

namespace {

std::string alias(size_t k) { return fmt::format("R{}", k); }

// The type that reduces; `of_unit`: the values of one unit, each of which is added to the row's.
std::string reduction(const ValueText& t, const Instruction& i, bool of_unit) {
  std::string_view from = value_type(t.body.code[i.in[0]].dtype);
  bool f32 = from == "f32", f64 = from == "f64";
  std::string_view plain = from == "bool" ? "int" : from;
  switch (i.reduction) {
    // Sums of long rows are added in double, one number per few elements.
    case Reduction::sum:
      return fmt::format("Sum<{}, {}>", f32 ? (t.variant.reread && !of_unit ? "f64" : "f32") : f64 ? "f64" : "i64", f32 && t.variant.reread && !of_unit ? "f32" : from);
    case Reduction::prod: return fmt::format("Product<{}, {}>", f32 || f64 ? "f64" : "i64", from);
    case Reduction::max: return fmt::format("Largest<{}, {}>", plain, from);
    case Reduction::min: return fmt::format("Smallest<{}, {}>", plain, from);
    case Reduction::any: return fmt::format("Any<int, {}>", from);
    case Reduction::all: return fmt::format("All<int, {}>", from);
    case Reduction::argmax: return fmt::format("Best<{}, {}, true>", plain, plain);
    case Reduction::argmin: return fmt::format("Best<{}, {}, false>", plain, plain);
  }
  return {};
}

}  // namespace

void start_reduction(ValueText& t, size_t k) {
  t.line("typedef {} {};", reduction(t, t.body.code[k], false), alias(k));
  t.line("typename {}::State a{} = {}::none();", alias(k), k, alias(k));
}

void accumulate(ValueText& t, size_t k) {
  const Instruction& i = t.body.code[k];
  std::string first = reduction(t, i, true);
  t.unroll("u", t.variant.units);
  t.line("typename {}::State part = {}::none();", first, first);
  t.unroll("v", t.unit);
  t.line("part = {}::both(part, {}::one({}, (i64)j[u] * {} + v));", first, first, t.ref(i.in[0]), t.unit);
  t.close();
  t.line("if (live[u]) a{} = {}::both(a{}, part);", k, alias(k), k);
  t.close();
}

void finish(ValueText& t, size_t k) {
  const Instruction& i = t.body.code[k];
  std::string across;
  switch (t.variant.mapping) {
    case Variant::warp: across = fmt::format("across_lanes<{}, {}>(a{})", alias(k), t.variant.lanes, k); break;
    case Variant::column: across = fmt::format("across_column<{}, {}, {}>(a{})", alias(k), k, t.variant.lanes, k); break;
    default: across = fmt::format("across_block<{}, {}>(a{})", alias(k), k, k);
  }
  bool arg = i.reduction == Reduction::argmax || i.reduction == Reduction::argmin;
  std::string narrowed = ir::size_of(i.dtype) < 4 && ir::is_integer(i.dtype) ? fmt::format("({})", ir::name_of(i.dtype)) : "";
  if (arg) across = fmt::format("place_of({})", across);
  t.line("const {} r{} = ({}){}{};", value_type(i.dtype), k, value_type(i.dtype), narrowed, across);
  if (t.sums_exponentials(static_cast<Reg>(k))) t.line("const f32 i{} = 1.0f / r{};", k, k);
}

}  // namespace ingot::backend::cuda
