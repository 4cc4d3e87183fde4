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
 protected:
  using Reg = backend::Reg;
  explicit BodyWriter(const ir::Graph& g) : symbols_(g.symbols) {}

  Reg push(backend::Instruction i);
  Reg map(ir::Op op, ir::DType t, std::vector<Reg> in);
  Reg number(ir::Scalar s, ir::DType t);
  Reg size(const ir::Dim& d);
  Reg axis_index(uint32_t axis);
  Reg coordinate(const Coordinate& c);
  StridedLayout over_domain(const StridedLayout& w, const Point& at);
  uint32_t operand(BufferView place);
  Reg load(const BufferView& place, const Point& at);
  // A load that may be outside the operand and gives `fill` there. Missing (pad_value_) if no guard can express the bounds.
  Reg guarded(const BufferView& place, const Point& at, const ir::Scalar& fill);
  // A load whose gathered axes are indexed by registers; `point` gives the other axes.
  Reg gathered(const BufferView& table, const std::vector<std::pair<size_t, Reg>>& axes, const Point& point);
  // The longest chain of reductions that ends in this register.
  int stages_of(Reg r);
  void label(ir::Op op);
  void label_text(const std::string& text);
  void finish();
  // Records a value that must be stored before there is a body. The first one counts; the body is then thrown away.
  Reg missing(ir::ValueId v);

  WrittenBody out_;
  ir::Dims domain_;
  ir::ValueId pad_value_ = ir::none_id;
  ir::ValueId missing_ = ir::none_id;

 private:
  std::span<const ir::Symbol> symbols_;
  std::vector<std::string> names_;
};

}  // namespace ingot::compile
