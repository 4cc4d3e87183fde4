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
  ++depth_;
}

void UnitText::close() {
  --depth_;
  line("}}");
}

std::string UnitText::extent(size_t g, int per) {
  ir::Dim e = w_.groups[g].extent;
  if (e.is_constant()) e = e.value() / per;
  return numbers_.text({Number::extent, static_cast<uint16_t>(g), static_cast<uint16_t>(per)}, e);
}

std::string UnitText::divided(const std::string& x, size_t g, int per) {
  const ir::Dim& e = w_.groups[g].extent;
  if (numbers_.is_literal({Number::extent, static_cast<uint16_t>(g), static_cast<uint16_t>(per)}, e)) {
    extent(g, per);  // records the number
    return fmt::format("{} / {}u", x, std::max<int64_t>(1, e.value() / per));
  }
  if (v_.wide) return fmt::format("{} / (u64){}", x, extent(g, per));
  return fmt::format("divided({}, {})", x, numbers_.parameter({Number::magic, static_cast<uint16_t>(g), static_cast<uint16_t>(per)}));
}

ir::Dim UnitText::row_units() const {
  ir::Dim n = 1;
  for (size_t g = w_.outer; g < w_.groups.size(); ++g) n = n * w_.groups[g].extent;
  return n.is_constant() ? ir::Dim(n.value() / unit_) : n;
}

std::string UnitText::units_text() { return fmt::format("({}){}", index_, numbers_.text({Number::units, 0, static_cast<uint16_t>(unit_)}, row_units())); }

std::string UnitText::size(const ir::Dim& d) {
  if (d.is_constant()) return fmt::format("{}ll", d.value());
  auto at = std::find(sizes_.begin(), sizes_.end(), d);
  if (at == sizes_.end()) at = sizes_.insert(at, d);
  return numbers_.parameter({Number::size, static_cast<uint16_t>(at - sizes_.begin()), 1});
}

std::string UnitText::stride(size_t operand, size_t axis) {
  const ir::Dim& s = axis < w_.group_of.size() ? w_.stride[operand][axis] : layouts_[operand].strides[axis];
  return numbers_.text({Number::stride, static_cast<uint16_t>(operand), static_cast<uint16_t>(axis)}, s);
}

std::string UnitText::dim(size_t operand, size_t axis) {
  return numbers_.text({Number::dim, static_cast<uint16_t>(operand), static_cast<uint16_t>(axis)}, layouts_[operand].dims[axis]);
}

std::string UnitText::lanes() const {
  if (v_.mapping == Variant::points || v_.mapping == Variant::tile) return "0u";
  if (v_.mapping == Variant::block) return v_.fitted ? "blockDim.x" : fmt::format("{}u", v_.threads);
  return fmt::format("{}u", v_.lanes);
}

void UnitText::find_row() {
  switch (v_.mapping) {
    case Variant::points: line("const {} lane = ({})blockIdx.x * {}u + threadIdx.x;", index_, index_, v_.threads * v_.units); break;
    case Variant::tile: return find_tile();
    case Variant::warp:
      line("const u32 lane = threadIdx.x % {}u;", v_.lanes);
      line("{} row = ({})blockIdx.x * {}u + threadIdx.x / {}u;", index_, index_, v_.rows_of_block(), v_.lanes);
      break;
    case Variant::block:
      line("const u32 lane = threadIdx.x;");
      line("const {} row = blockIdx.x;", index_);
      break;
    case Variant::column:
      line("const u32 lane = threadIdx.x / 32;");
      line("{} row = ({})blockIdx.x * {}u + threadIdx.x % 32;", index_, index_, v_.rows_of_block());
      break;
  }
  if (v_.mapping == Variant::points) return;
  if (v_.mapping != Variant::block || numbers_.any_rows()) {
    ir::Dim rows = 1;
    for (size_t g = 0; g < w_.outer; ++g) rows = rows * w_.groups[g].extent;
    line("const {} rows = ({}){};", index_, index_, numbers_.text({Number::rows, 0, 1}, rows));
  }
  // A launch beside others may have more blocks than this one needs.
  if (numbers_.any_rows()) line("if (({})blockIdx.x * {}u >= rows) return;", index_, v_.rows_of_block());
  if (v_.mapping == Variant::block) {
    line("const bool own = true;");
  } else {
    // All threads take part in reductions. Those without a row compute the last one again and do not store it.
    line("const bool own = row < rows;");
    line("row = own ? row : rows - 1;");
  }
  if (w_.outer == 0) return;
  std::string rest = "row";
  for (size_t g = w_.outer; g-- > 1;) {
    line("const {} rest{} = {};", index_, g, divided(rest, g));
    line("const {} c{} = {} - rest{} * ({}){};", index_, g, rest, g, index_, extent(g));
    rest = fmt::format("rest{}", g);
  }
  line("const {} c0 = {};", index_, rest);
}

void UnitText::find_tile() {
  const size_t last = w_.groups.size() - 1, across = v_.across;
  line("const u32 lane = blockIdx.x * {}u + threadIdx.x;", v_.threads);
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

void UnitText::units_of_tile(bool turned) {
  const size_t last = w_.groups.size() - 1, across = v_.across;
  line("bool live[{}];", v_.units);
  for (size_t g = 0; g <= last; ++g) line("u32 c{}[{}];", g, v_.units);
  unroll("u", v_.units);
  for (size_t g = 0; g <= last; ++g) {
    const bool beside = g == (turned ? across : last), apart = g == (turned ? last : across);
    line("c{}[u] = o{}{};", g, g, beside ? " + threadIdx.x % 32u" : apart ? " + threadIdx.x / 32u + u * 8u" : "");
  }
  // Units past the end compute the tile's first one again.
  line("live[u] = c{}[u] < (u32){} && c{}[u] < (u32){};", across, extent(across), last, extent(last));
  for (size_t g : {across, last}) line("c{}[u] = live[u] ? c{}[u] : o{};", g, g, g);
  close();
}

bool UnitText::exact() const {
  ir::Dim n = row_units();
  if (!n.is_constant()) return false;
  int64_t at_once = v_.mapping == Variant::points ? v_.threads * v_.units : v_.mapping == Variant::block ? v_.threads * v_.units : v_.lanes * v_.units;
  if (v_.fitted) return false;
  return v_.reread || v_.mapping == Variant::points ? n.value() % at_once == 0 : n.value() == at_once;
}

void UnitText::units(const std::string& first) {
  if (v_.mapping == Variant::tile) return units_of_tile(false);
  std::string own = v_.mapping == Variant::points ? "true" : "own";
  line("{} j[{}];", index_, v_.units);
  line("bool live[{}];", v_.units);
  for (size_t g = w_.outer; g < w_.groups.size(); ++g) line("{} c{}[{}];", index_, g, v_.units);
  unroll("u", v_.units);
  std::string step = v_.mapping == Variant::points ? fmt::format("{}u", v_.threads) : lanes();
  line("j[u] = {}lane + ({})u * {};", first, index_, step);
  if (exact()) {
    line("live[u] = {};", own);
  } else {
    line("const bool inside_row = j[u] < {};", units_text());
    line("live[u] = inside_row && {};", own);
    line("j[u] = inside_row ? j[u] : {} - 1u;", units_text());
  }
  size_t last = w_.groups.size() - 1;
  std::string rest = "j[u]";
  if (last > w_.outer) {
    line("const {} rest{} = {};", index_, last, divided(rest, last, unit_));
    line("c{}[u] = (j[u] - rest{} * ({}){}) * {}u;", last, last, index_, extent(last, unit_), unit_);
    rest = fmt::format("rest{}", last);
    for (size_t g = last - 1; g > w_.outer; --g) {
      line("const {} rest{} = {};", index_, g, divided(rest, g));
      line("c{}[u] = {} - rest{} * ({}){};", g, rest, g, index_, extent(g));
      rest = fmt::format("rest{}", g);
    }
    line("c{}[u] = {};", w_.outer, rest);
  } else {
    line("c{}[u] = j[u] * {}u;", last, unit_);
  }
  close();
}

void UnitText::unroll(const char* name, int n) {
  line("#pragma unroll");
  open(fmt::format("for (int {} = 0; {} < {}; ++{}) {{", name, name, n, name));
}

std::string UnitText::coordinate(size_t g, bool element) const {
  if (g < w_.outer) return fmt::format("(i64)c{}", g);
  std::string c = fmt::format("(i64)c{}[u]", g);
  return element && g + 1 == w_.groups.size() && unit_ > 1 ? fmt::format("({} + v)", c) : c;
}

std::string UnitText::shifted(int load, size_t g, bool element) {
  std::string c = coordinate(g, element);
  size_t axis = w_.groups[g].first;
  if (load < 0 || w_.guards[static_cast<size_t>(load)][axis] == 0) return c;
  const Instruction& i = b_.code[static_cast<size_t>(load)];
  const ir::Dim& lower = i.lower[axis];
  if (!i.step.empty() && i.step[axis] != 1) c = fmt::format("{} * {}", c, i.step[axis]);
  return lower.is_constant() && lower.value() == 0 ? c : fmt::format("({} - {})", c, size(lower));
}

std::string UnitText::offset(size_t operand, int load, size_t from, size_t to, bool element) {
  std::string sum;
  for (size_t g = from; g < to; ++g) {
    if (!w_.varies(operand, w_.groups[g])) continue;
    std::string s = stride(operand, w_.groups[g].last), c = shifted(load, g, element);
    sum += fmt::format(" + {}", s == "1ll" ? c : fmt::format("{} * {}", c, s));
  }
  return sum;
}

}  // namespace ingot::backend::cuda
