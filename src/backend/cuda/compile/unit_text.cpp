#include "backend/cuda/compile/unit_text.h"

#include <algorithm>

namespace ingot::backend::cuda {

using Args = kernels::FusedCudaArgs;

std::string Numbers::parameter(const Number& n) {
  auto at = std::find(args_.numbers.begin(), args_.numbers.end(), n);
  if (at == args_.numbers.end()) at = args_.numbers.insert(at, n);
  return fmt::format("p.number[{}]", at - args_.numbers.begin());
}

bool Numbers::is_literal(const Number& n, const ir::Dim& value) const {
  if (!value.is_constant()) return false;
  if (!any_rows_) return true;
  if (n.kind == Number::extent || n.kind == Number::magic) return n.a >= args_.outer;
  if (n.kind != Number::stride) return n.kind != Number::rows;
  const auto outer = args_.groups.begin() + args_.outer;
  return value == ir::Dim(1) || std::none_of(args_.groups.begin(), outer, [&](const Args::Group& g) { return g.first <= n.b && n.b <= g.last; });
}

std::string Numbers::text(const Number& n, const ir::Dim& value) {
  if (!is_literal(n, value)) return parameter(n);
  bool noted = std::any_of(args_.known.begin(), args_.known.end(), [&](const Args::Known& k) { return k.number == n; });
  if (!noted) args_.known.push_back({n, value.value()});
  return fmt::format("{}ll", value.value());
}

void UnitText::open(const std::string& head) {
  line("{}", head);
  ++depth;
}

void UnitText::close() {
  --depth;
  line("}}");
}

std::string UnitText::extent(size_t g, int per) {
  ir::Dim e = walk.groups[g].extent;
  if (e.is_constant()) e = e.value() / per;
  return numbers.text({Number::extent, static_cast<uint16_t>(g), static_cast<uint16_t>(per)}, e);
}

std::string UnitText::divided(const std::string& x, size_t g, int per) {
  const ir::Dim& e = walk.groups[g].extent;
  if (numbers.is_literal({Number::extent, static_cast<uint16_t>(g), static_cast<uint16_t>(per)}, e)) {
    extent(g, per);  // records the number
    return fmt::format("{} / {}u", x, std::max<int64_t>(1, e.value() / per));
  }
  if (variant.wide) return fmt::format("{} / (u64){}", x, extent(g, per));
  return fmt::format("divided({}, {})", x, numbers.parameter({Number::magic, static_cast<uint16_t>(g), static_cast<uint16_t>(per)}));
}

ir::Dim UnitText::row_units() const {
  ir::Dim n = 1;
  for (size_t g = walk.outer; g < walk.groups.size(); ++g) n = n * walk.groups[g].extent;
  return n.is_constant() ? ir::Dim(n.value() / unit) : n;
}

std::string UnitText::units_text() { return fmt::format("({}){}", index, numbers.text({Number::units, 0, static_cast<uint16_t>(unit)}, row_units())); }

std::string UnitText::size(const ir::Dim& d) {
  if (d.is_constant()) return fmt::format("{}ll", d.value());
  auto at = std::find(sizes.begin(), sizes.end(), d);
  if (at == sizes.end()) at = sizes.insert(at, d);
  return numbers.parameter({Number::size, static_cast<uint16_t>(at - sizes.begin()), 1});
}

std::string UnitText::stride(size_t operand, size_t axis) {
  const ir::Dim& s = axis < walk.group_of.size() ? walk.stride[operand][axis] : layouts[operand].strides[axis];
  return numbers.text({Number::stride, static_cast<uint16_t>(operand), static_cast<uint16_t>(axis)}, s);
}

std::string UnitText::dim(size_t operand, size_t axis) {
  return numbers.text({Number::dim, static_cast<uint16_t>(operand), static_cast<uint16_t>(axis)}, layouts[operand].dims[axis]);
}

std::string UnitText::lanes() const {
  if (variant.mapping == Variant::points || variant.mapping == Variant::tile) return "0u";
  if (variant.mapping == Variant::block) return variant.fitted ? "blockDim.x" : fmt::format("{}u", variant.threads);
  return fmt::format("{}u", variant.lanes);
}

void UnitText::find_row() {
  switch (variant.mapping) {
    case Variant::points: line("const {} lane = ({})blockIdx.x * {}u + threadIdx.x;", index, index, variant.threads * variant.units); break;
    case Variant::tile: return find_tile();
    case Variant::warp:
      line("const u32 lane = threadIdx.x % {}u;", variant.lanes);
      line("{} row = ({})blockIdx.x * {}u + threadIdx.x / {}u;", index, index, variant.rows_of_block(), variant.lanes);
      break;
    case Variant::block:
      line("const u32 lane = threadIdx.x;");
      line("const {} row = blockIdx.x;", index);
      break;
    case Variant::column:
      line("const u32 lane = threadIdx.x / 32;");
      line("{} row = ({})blockIdx.x * {}u + threadIdx.x % 32;", index, index, variant.rows_of_block());
      break;
  }
  if (variant.mapping == Variant::points) return;
  if (variant.mapping != Variant::block || numbers.any_rows()) {
    ir::Dim rows = 1;
    for (size_t g = 0; g < walk.outer; ++g) rows = rows * walk.groups[g].extent;
    line("const {} rows = ({}){};", index, index, numbers.text({Number::rows, 0, 1}, rows));
  }
  // A launch joined with others may have more blocks than this one needs.
  if (numbers.any_rows()) line("if (({})blockIdx.x * {}u >= rows) return;", index, variant.rows_of_block());
  if (variant.mapping == Variant::block) {
    line("const bool own = true;");
  } else {
    // All threads take part in reductions. Those without a row compute the last one again and do not store it.
    line("const bool own = row < rows;");
    line("row = own ? row : rows - 1;");
  }
  if (walk.outer == 0) return;
  std::string rest = "row";
  for (size_t g = walk.outer; g-- > 1;) {
    line("const {} rest{} = {};", index, g, divided(rest, g));
    line("const {} c{} = {} - rest{} * ({}){};", index, g, rest, g, index, extent(g));
    rest = fmt::format("rest{}", g);
  }
  line("const {} c0 = {};", index, rest);
}

void UnitText::find_tile() {
  const size_t last = walk.groups.size() - 1, across = variant.across;
  line("const u32 lane = blockIdx.x * {}u + threadIdx.x;", variant.threads);
  line("u32 rest = blockIdx.x;");
  for (size_t g : {last, across}) {
    line("const u32 tiles{} = ((u32){} + 31u) / 32u, o{} = rest % tiles{} * 32u;", g, extent(g), g, g);
    line("rest /= tiles{};", g);
  }
  for (size_t g = last; g-- > 0;) {
    if (g == across) continue;
    line("const u32 o{} = rest % (u32){};", g, extent(g));
    line("rest /= (u32){};", extent(g));
  }
}

void UnitText::units_of_tile(bool transposed) {
  const size_t last = walk.groups.size() - 1, across = variant.across;
  line("bool live[{}];", variant.units);
  for (size_t g = 0; g <= last; ++g) line("u32 c{}[{}];", g, variant.units);
  unroll("u", variant.units);
  for (size_t g = 0; g <= last; ++g) {
    const bool adjacent = g == (transposed ? across : last), strided = g == (transposed ? last : across);
    line("c{}[u] = o{}{};", g, g, adjacent ? " + threadIdx.x % 32u" : strided ? " + threadIdx.x / 32u + u * 8u" : "");
  }
  // Units past the end compute the tile's first one again.
  line("live[u] = c{}[u] < (u32){} && c{}[u] < (u32){};", across, extent(across), last, extent(last));
  for (size_t g : {across, last}) line("c{}[u] = live[u] ? c{}[u] : o{};", g, g, g);
  close();
}

bool UnitText::exact() const {
  ir::Dim n = row_units();
  if (!n.is_constant()) return false;
  int64_t at_once = variant.mapping == Variant::points  ? variant.threads * variant.units
                    : variant.mapping == Variant::block ? variant.threads * variant.units
                                                        : variant.lanes * variant.units;
  if (variant.fitted) return false;
  return variant.reread || variant.mapping == Variant::points ? n.value() % at_once == 0 : n.value() == at_once;
}

void UnitText::units(const std::string& first) {
  if (variant.mapping == Variant::tile) return units_of_tile(false);
  std::string own = variant.mapping == Variant::points ? "true" : "own";
  line("{} j[{}];", index, variant.units);
  line("bool live[{}];", variant.units);
  for (size_t g = walk.outer; g < walk.groups.size(); ++g) line("{} c{}[{}];", index, g, variant.units);
  unroll("u", variant.units);
  std::string step = variant.mapping == Variant::points ? fmt::format("{}u", variant.threads) : lanes();
  line("j[u] = {}lane + ({})u * {};", first, index, step);
  if (exact()) {
    line("live[u] = {};", own);
  } else {
    line("const bool inside_row = j[u] < {};", units_text());
    line("live[u] = inside_row && {};", own);
    line("j[u] = inside_row ? j[u] : {} - 1u;", units_text());
  }
  size_t last = walk.groups.size() - 1;
  std::string rest = "j[u]";
  if (last > walk.outer) {
    line("const {} rest{} = {};", index, last, divided(rest, last, unit));
    line("c{}[u] = (j[u] - rest{} * ({}){}) * {}u;", last, last, index, extent(last, unit), unit);
    rest = fmt::format("rest{}", last);
    for (size_t g = last - 1; g > walk.outer; --g) {
      line("const {} rest{} = {};", index, g, divided(rest, g));
      line("c{}[u] = {} - rest{} * ({}){};", g, rest, g, index, extent(g));
      rest = fmt::format("rest{}", g);
    }
    line("c{}[u] = {};", walk.outer, rest);
  } else {
    line("c{}[u] = j[u] * {}u;", last, unit);
  }
  close();
}

void UnitText::unroll(const char* name, int n) {
  line("#pragma unroll");
  open(fmt::format("for (int {} = 0; {} < {}; ++{}) {{", name, name, n, name));
}

std::string UnitText::coordinate(size_t g, bool element) const {
  if (g < walk.outer) return fmt::format("(i64)c{}", g);
  std::string c = fmt::format("(i64)c{}[u]", g);
  return element && g + 1 == walk.groups.size() && unit > 1 ? fmt::format("({} + v)", c) : c;
}

std::string UnitText::shifted(int load, size_t g, bool element) {
  std::string c = coordinate(g, element);
  size_t axis = walk.groups[g].first;
  if (load < 0 || walk.guards[static_cast<size_t>(load)][axis] == 0) return c;
  const Instruction& i = body.code[static_cast<size_t>(load)];
  const ir::Dim& lower = i.lower[axis];
  if (!i.step.empty() && i.step[axis] != 1) c = fmt::format("{} * {}", c, i.step[axis]);
  return lower.is_constant() && lower.value() == 0 ? c : fmt::format("({} - {})", c, size(lower));
}

std::string UnitText::offset(size_t operand, int load, size_t from, size_t to, bool element) {
  std::string sum;
  for (size_t g = from; g < to; ++g) {
    if (!walk.varies(operand, walk.groups[g])) continue;
    std::string s = stride(operand, walk.groups[g].last), c = shifted(load, g, element);
    sum += fmt::format(" + {}", s == "1ll" ? c : fmt::format("{} * {}", c, s));
  }
  return sum;
}

}  // namespace ingot::backend::cuda
