// Pulls values into a body: the instructions that compute them, down to what is in memory.
#pragma once
#include <utility>
#include <vector>

#include "compile/schedule/body_writer.h"

namespace ingot::compile {

struct Puller : BodyWriter {
  Puller(const StoragePlan& s, const ir::Dims& outer, const ir::Dims& row) : BodyWriter(s.graph(), outer, row), plan(s), graph(s.graph()) {}

  // The element of v at this point: a load if v is stored, else what computes it. The same element is pulled once.
  Reg value(ir::ValueId v, const Point& at);
  // The same, not remembered.
  Reg pull(ir::ValueId v, const Point& at);
  // Computes the element, although v may be stored.
  Reg compute(ir::ValueId v, const Point& at);

  const StoragePlan& plan;
  const ir::Graph& graph;
  ir::ValueId anchor = ir::none_id;          // whose accumulator the body reads
  ir::ValueId last_reduction = ir::none_id;  // that was pulled

 private:
  std::vector<std::pair<std::pair<ir::ValueId, Point>, Reg>> pulled_;
};

}  // namespace ingot::compile
