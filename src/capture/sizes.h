// The sizes of a program of torch.export as expressions of the graph's symbols.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "capture/json.h"
#include "ir/graph.h"

namespace ingot::capture {

class Sizes {
 public:
  // `symbols`: new ones are added to this graph.
  explicit Sizes(ir::Graph& symbols) : graph_(symbols) {}
  // Before the first size: the ranges of the symbols.
  void read_ranges(Json program);
  // Of a SymInt. The size of the example becomes the size to build for.
  ir::Dim size(Json sym_int);
  ir::SymbolId symbol(std::string_view name);
  // An input that is a number.
  void note_number(const ir::Dim&);
  bool is_number(ir::SymbolId symbol) const { return numbers_.contains(symbol); }

 private:
  ir::Dim expression(std::string_view srepr);

  ir::Graph& graph_;
  std::map<std::string, ir::SymbolId, std::less<>> symbols_;
  std::map<std::string, ir::Range, std::less<>> ranges_;
  std::unordered_map<std::string, ir::Dim> expressions_;  // parsed once: the same text stands on many values
  std::set<ir::SymbolId> numbers_;
};

}  // namespace ingot::capture
