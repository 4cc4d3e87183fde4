#include "capture/sizes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "capture/expression.h"
#include "ir/symbols.h"

namespace ingot::capture {

using ir::Dim;

void Sizes::read_ranges(Json program) {
  auto all = program.find("range_constraints");
  if (!all) return;
  for (auto field : all->object()) {
    Json r(field.value, field.key);
    ir::Range range;
    if (auto v = r.find("min_val")) range.min = std::max<int64_t>(0, v->integer());
    if (auto v = r.find("max_val")) range.max = v->integer();
    if (range.max >= (int64_t{1} << 62)) range.max = INT64_MAX;
    if (range.min > range.max) fail(Code::format, "the model's JSON is damaged: size {} has range {}..{}", std::string_view(field.key), range.min, range.max);
    ranges_[std::string(field.key)] = range;
  }
}

ir::SymbolId Sizes::symbol(std::string_view name) {
  if (auto found = symbols_.find(name); found != symbols_.end()) return found->second;
  auto id = static_cast<ir::SymbolId>(graph_.symbols.size());
  ir::Symbol s{std::string(name)};
  if (auto r = ranges_.find(name); r != ranges_.end()) {
    s.min = r->second.min;
    s.max = r->second.max;
  }
  s.opt = std::clamp<int64_t>(1, s.min, s.max);
  graph_.symbols.push_back(std::move(s));
  symbols_.emplace(std::string(name), id);
  return id;
}

Dim Sizes::expression(std::string_view srepr) {
  if (auto known = expressions_.find(std::string(srepr)); known != expressions_.end()) return known->second;
  // Only what has a meaning is kept: a text that is refused here is refused on the next value too.
  const Dim size = parse_size(srepr, [&](std::string_view name) { return Dim::symbol(symbol(name)); }, graph_.symbols);
  return expressions_.emplace(std::string(srepr), size).first->second;
}

Dim Sizes::size(Json s) {
  std::string_view kind;
  Json v = s.only(kind);
  if (kind == "as_int") return v.integer();
  if (kind != "as_expr") fail(Code::format, "the model's JSON is damaged: a size is given as {}", kind);
  Dim d = expression(v.at("expr_str").string());
  if (auto linear = ir::linear_size(d)) {
    if (auto hint = v.find("hint"); hint && hint->is_object()) {
      std::string_view hint_kind;
      Json h = hint->only(hint_kind);
      ir::Symbol& symbol = graph_.symbols[linear->symbol];
      if (hint_kind == "as_int") symbol.opt = std::clamp(linear->symbol_at(h.integer()), symbol.min, symbol.max);
    }
  }
  return d;
}

void Sizes::note_number(const Dim& number) {
  if (auto symbol = number.as_symbol()) numbers_.insert(*symbol);
}

}  // namespace ingot::capture
