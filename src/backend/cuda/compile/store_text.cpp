#include "backend/cuda/compile/store_text.h"

#include <algorithm>

#include "backend/cuda/compile/expression.h"

namespace ingot::backend::cuda {

using Kind = Instruction::Kind;
using Variant = kernels::FusedCudaArgs::Variant;

namespace {

// True if the operand has size 1 along a group of larger extent.
bool same_along(const ValueText& t, size_t operand, size_t g) {
  for (size_t a = t.walk.groups[g].first; a <= t.walk.groups[g].last; ++a) {
    const ir::Dim& d = t.layouts[operand].dims[a];
    if (!(d.is_constant() && d.value() == 1)) return false;
  }
  return true;
}

// Whether unit u exists and is stored: of the places along an axis that the operand lacks, the first one is.
std::string stored_here(const ValueText& t, size_t operand) {
  std::string condition = "live[u]";
  for (size_t g = t.walk.outer; g < t.walk.groups.size(); ++g) {
    if (same_along(t, operand, g)) condition += fmt::format(" && c{}[u] == 0", g);
  }
  return condition;
}

// True if the value is constant along the row, so that it is stored once.
bool once(const ValueText& t, const Store& s) {
  if (t.walk.level[s.value] != Level::row) return false;
  for (size_t g = t.walk.outer; g < t.walk.groups.size(); ++g) {
    if (t.walk.varies(s.operand, t.walk.groups[g]) || !same_along(t, s.operand, g)) return false;
  }
  return true;
}

}  // namespace

void load_tiles(ValueText& t) {
  for (size_t s = 0; s < t.body.stores.size(); ++s) {
    if (t.is_transposed(t.body.stores[s].operand)) t.line("__shared__ {} out{}[32][33];", memory_type(t.body.operands[t.body.stores[s].operand]), s);
  }
  std::vector<size_t> loads;
  for (size_t k = 0; k < t.body.code.size(); ++k) {
    if (t.body.code[k].kind != Kind::load || !t.is_transposed(t.body.code[k].operand)) continue;
    loads.push_back(k);
    t.line("__shared__ {} in{}[32][33];", memory_type(t.body.operands[t.body.code[k].operand]), k);
  }
  if (loads.empty()) return;
  t.open("{");
  t.units_of_tile(true);
  t.unroll("u", t.variant.units);
  for (size_t k : loads) t.line("in{}{} = *(q{}{});", k, t.place_in_tile(false), k, t.offset(t.body.code[k].operand, static_cast<int>(k), 0, t.walk.groups.size(), true));
  t.close();
  t.close();
  t.line("__syncthreads();");
}

void store_tiles(ValueText& t) {
  if (std::none_of(t.body.stores.begin(), t.body.stores.end(), [&](const Store& s) { return t.is_transposed(s.operand); })) return;
  t.line("__syncthreads();");
  t.open("{");
  t.units_of_tile(true);
  t.unroll("u", t.variant.units);
  for (size_t s = 0; s < t.body.stores.size(); ++s) {
    const size_t operand = t.body.stores[s].operand;
    if (t.is_transposed(operand)) t.line("if ({}) *(t{}{}) = out{}{};", stored_here(t, operand), s, t.offset(operand, -1, 0, t.walk.groups.size(), true), s, t.place_in_tile(true));
  }
  t.close();
  t.close();
}

bool has_unit_stores(const ValueText& t) {
  return std::any_of(t.body.stores.begin(), t.body.stores.end(), [&](const Store& s) { return !once(t, s); });
}

void row_stores(ValueText& t) {
  for (size_t s = 0; s < t.body.stores.size(); ++s) {
    const Store& store = t.body.stores[s];
    if (!once(t, store)) continue;
    std::string_view type = memory_type(t.body.operands[store.operand]);
    t.line("if ({}lane == 0) *t{} = memory<{}>({});", t.variant.mapping == Variant::points ? "" : "own && ", s, type, t.ref(store.value));
  }
}

void unit_stores(ValueText& t) {
  for (size_t s = 0; s < t.body.stores.size(); ++s) {
    const Store& store = t.body.stores[s];
    if (once(t, store)) continue;
    std::string_view type = memory_type(t.body.operands[store.operand]);
    size_t last = t.walk.groups.size() - 1;
    bool first_only = same_along(t, store.operand, last);
    t.unroll("u", t.variant.units);
    if (t.is_transposed(store.operand)) {
      t.line("out{}{} = memory<{}>({});", s, t.place_in_tile(false), type, t.walk.level[store.value] == Level::element ? t.ref(store.value, "0") : t.ref(store.value));
      t.close();
      continue;
    }
    t.open(fmt::format("if ({}) {{", stored_here(t, store.operand)));
    if (t.in_vectors(store.operand)) {
      t.line("alignas(16) {} m[{}];", type, t.unit);
      t.line("#pragma unroll");
      t.open(fmt::format("for (int v = 0; v < {}; v += 2) {{", t.unit));
      t.line("put2(m + v, {}, {});", t.ref(store.value), t.ref(store.value, "v + 1"));
      t.close();
      t.line("write<{}>(t{}{}, m);", t.unit, s, t.offset(store.operand, -1, t.walk.outer, t.walk.groups.size(), false));
    } else {
      t.unroll("v", first_only ? 1 : t.unit);
      t.line("*(t{}{}) = memory<{}>({});", s, t.offset(store.operand, -1, t.walk.outer, t.walk.groups.size(), true), type, t.ref(store.value));
      t.close();
    }
    t.close();
    t.close();
  }
}

}  // namespace ingot::backend::cuda
