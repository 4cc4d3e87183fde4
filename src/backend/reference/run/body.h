// The serialised fused body of a reference step, and its evaluation one element and one instruction at a time. Floats are doubles, rounded to the
// instruction's type after each instruction; integers wrap at their width.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/fields.h"
#include "ir/op.h"
#include "ir/scalar_functions.h"
#include "kernels/run/kernel.h"

namespace ingot::backend::reference {

using ir::Element;
using kernels::TensorRef;

enum class Kind : uint8_t { map, load, accumulator, literal, size, index, reduce };
enum class Reduction : uint8_t { sum, prod, max, min, any, all, argmax, argmin };

// backend::Instruction, with sizes as indices into the body's sizes.
struct Instruction {
  Kind kind{};
  ir::DType dtype{};
  ir::Op op{};
  Reduction reduction{};
  uint32_t axis = 0, operand = 0, size = 0;
  double number = 0;                     // literal or fill value of a float type,
  int64_t integer = 0;                   // or of any other type
  std::vector<uint32_t> in, lower, step;
};

struct Store {
  uint32_t operand = 0, value = 0;
};

// The body's sizes are those that instructions use, then the extents of the domain.
struct Body {
  uint32_t outer = 0, row = 0;           // axes
  uint32_t sizes = 0;
  std::vector<Instruction> code;
  std::vector<ir::DType> operands;       // dtypes in memory; the stored operands come last
  std::vector<Store> stores;
  // Derived, not serialised:
  std::vector<uint32_t> stage;           // per instruction: the reductions that it depends on
  std::vector<uint32_t> gathered;        // per operand: axes after the domain's
  std::vector<bool> plain, guarded;      // per operand: it has plain loads, guarded loads

  size_t rank() const { return size_t{outer} + row; }
  uint32_t stages() const;
};

template <class Stream, class B>
void body_fields(Stream& s, B& b) {
  s.all(b.outer, b.row, b.sizes);
  s.list(b.code, [&](auto& i) {
    s.all(i.kind, i.dtype, i.op, i.reduction, i.axis, i.operand, i.size, i.number, i.integer);
    for (auto* list : {&i.in, &i.lower, &i.step}) s.list(*list, [&](auto& v) { s.field(v); });
  });
  s.list(b.operands, [&](auto& t) { s.field(t); });
  s.list(b.stores, [&](auto& store) { s.all(store.operand, store.value); });
}

enum class Stores : uint8_t {
  memory,
  none,    // a mask: one value, not stored
};

// Reads and checks the body of a step with this number of operands and body sizes. Error (format).
Body read_body(FieldReader&, size_t operands, size_t sizes, Stores);

// The value of an instruction.
struct Value : Element {
  bool started = false;                  // of a running reduction: there was an element,
  int64_t position = 0;                  // and the position of the best one in the row
};
Element read(ir::DType, const std::byte*);

// A body bound to operands of known sizes.
struct Bound {
  const Body* body = nullptr;
  std::vector<int64_t> sizes, domain;
  std::vector<std::vector<int64_t>> strides;  // per operand: along the domain's axes, then the gathered ones
  int64_t rows = 1, length = 1;               // elements of the outer axes; of the row axes
};
// Checks operands and sizes, so that evaluation stays inside the operands. Error (format).
Bound bind(const Body&, std::span<const TensorRef> operands, std::span<const int64_t> sizes);

// The state of one thread.
class Evaluator {
 public:
  // `values`: room for one value per instruction.
  Evaluator(const Bound& bound, std::span<const TensorRef> operands, Value* values) : b_(bound), body_(*bound.body), operands_(operands), values_(values) {}
  // Evaluates one row and its reductions.
  void row(int64_t row);
  // Evaluates one element of a body without reductions; returns the value of its first store.
  Element element(std::span<const int64_t> at, const Element& accumulator);
  void store(std::span<const int64_t> at);

 private:
  void compute(uint32_t stage, std::span<const int64_t> at, bool empty = false);
  Element load(const Instruction&, std::span<const int64_t> at, bool empty) const;
  void begin(size_t k);
  void accumulate(size_t k, int64_t position);
  void finish(size_t k);
  bool once(const Store&) const;
  void put(const Store&, std::span<const int64_t> at);

  const Bound& b_;
  const Body& body_;
  std::span<const TensorRef> operands_;
  Value* values_;
  Element accumulator_;
};

// The coordinates of element n of these extents, row-major.
void coordinates(int64_t n, std::span<const int64_t> extents, std::span<int64_t> at);

}  // namespace ingot::backend::reference
