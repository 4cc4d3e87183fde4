// The instructions of one fused body, each distinct one once, and the memory they read: layouts over the body's domain.
#pragma once
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compile/schedule/writer.h"

namespace ingot::compile {

// How an index of some value follows from the coordinates of the domain: one entry per axis of the value.
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
  // `at` may leave the operand: then `fill` is read. pad_value_ is missing when no guard can say so.
  Reg guarded(const BufferView& place, const Point& at, const ir::Scalar& fill);
  // A load whose gathered axes come from registers; `point` holds the coordinates of the other axes.
  Reg gathered(const BufferView& table, const std::vector<std::pair<size_t, Reg>>& axes, const Point& point);
  // How many reductions lie one behind another up to this register.
  int stages_of(Reg r);
  void label(ir::Op op);
  void label_text(const std::string& text);
  void finish();
  // This value has to be stored before there is a body. The first one counts; what is written afterwards is thrown away.
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
