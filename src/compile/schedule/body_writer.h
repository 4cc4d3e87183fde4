// Builds the instructions of one fused body, each distinct one once, and the layouts over its domain of the memory it reads.
#pragma once
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compile/schedule/writer.h"

namespace ingot::compile {

// A point of a value: an index per axis, in terms of the domain's coordinates.
struct Coordinate {
  ir::Dim offset = 0;
  std::map<uint32_t, ir::Dim> terms;  // domain axis -> coefficient
  bool operator==(const Coordinate&) const = default;
};
using Point = std::vector<Coordinate>;
Coordinate scaled(const Coordinate& c, const ir::Dim& by);
void add(Coordinate& to, const Coordinate& c);

class BodyWriter {
 public:
  using Reg = backend::Reg;
  BodyWriter(const ir::Graph& g, const ir::Dims& outer, const ir::Dims& row);

  Reg push(backend::Instruction i);
  Reg map(ir::Op op, ir::DType t, std::vector<Reg> in);
  Reg number(ir::Scalar s, ir::DType t);
  Reg size(const ir::Dim& d);
  Reg axis_index(uint32_t axis);
  Reg coordinate(const Coordinate& c);
  // Of the anchor; `second`: of a gated epilogue.
  Reg accumulator(ir::DType t, bool second);
  StridedLayout over_domain(const StridedLayout& w, const Point& at);
  uint32_t operand(BufferView place);
  Reg load(const BufferView& place, const Point& at);
  // A load that may be outside the operand and gives `fill` there. `padded`, the value that it computes, is missing if no guard can express the bounds.
  Reg guarded(const BufferView& place, const Point& at, const ir::Scalar& fill, ir::ValueId padded);
  // A load whose gathered axes are indexed by registers; `point` gives the other axes.
  Reg gathered(const BufferView& table, const std::vector<std::pair<size_t, Reg>>& axes, const Point& point);
  // The longest chain of reductions that ends in this register.
  int stages_of(Reg r);
  void label(ir::Op op);
  void label_text(const std::string& text);
  // Ends the body with its store, of this type. The caller adds the memory, if it has any, to the operands.
  WrittenBody finish(ir::DType type, Reg result);
  // Records a value that must be stored before there is a body. The first one counts; the body is then thrown away.
  Reg missing(ir::ValueId v);

  WrittenBody out;
  const ir::Dims domain;  // outer axes, then the row's
  ir::ValueId missing_value = ir::none_id;

 private:
  std::span<const ir::Symbol> symbols_;
  std::vector<std::string> names_;
};

}  // namespace ingot::compile
