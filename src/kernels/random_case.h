// Random graphs for conformance tests, with sizes of 0 and 1 and with operands that are not row-major.
#pragma once
#include <numeric>
#include <random>
#include <string>

#include "ir/compose.h"

namespace ingot::kernels {

class RandomCase {
 public:
  ir::Graph graph;
  explicit RandomCase(std::mt19937& random) : random_(random) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> of) {
    return of.begin()[below(static_cast<int64_t>(of.size()))];
  }
  int64_t size() { return one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 16, 17, 33}); }
  ir::Dims dims(int64_t rank) {
    ir::Dims out;
    for (int64_t d = 0; d < rank; ++d) out.push_back(one_in(40) ? 0 : size());
    return out;
  }
  // An input of these dims; one time in two its axes are permuted in memory.
  ir::Handle input(const char* name, ir::DType type, ir::Dims dims) {
    const size_t rank = dims.size();
    if (rank < 2 || one_in(2)) return {&graph, graph.add_input(name, {type, std::move(dims)})};
    ir::Axes order(rank);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    ir::Dims in_memory(rank);
    for (size_t d = 0; d < rank; ++d) in_memory[static_cast<size_t>(order[d])] = dims[d];
    return ir::permute({&graph, graph.add_input(name, {type, std::move(in_memory)})}, order);
  }
  ir::Handle weight(const char* name, ir::DType type, ir::Dims dims) {
    ir::Weight w;
    w.name = name;
    return {&graph, graph.add_weight(std::move(w), {type, std::move(dims)})};
  }
  // Adds a pointwise epilogue: up to four operations that follow layers in models, in any order. One time in four its input becomes a result too.
  ir::Handle ended(ir::Handle y) {
    using namespace ir;
    const DType t = y.dtype();
    const Dim n = y.dims().back();
    if (one_in(4)) output("before", y);
    auto name = [&](const char* of, int64_t i) { return std::string(of) + std::to_string(i); };
    if (t != DType::f32) {  // a long chain of roundings to a half type may exceed the comparison's bound
      if (one_in(2)) y = y + weight("bias", t, {n});
      if (one_in(2)) y = one_in(2) ? relu(y) : silu(y);
      return one_in(4) ? y + input("residual", t, y.dims()) : y;
    }
    for (int64_t i = below(5); i > 0; --i) {
      switch (below(8)) {
        case 0: y = y + weight(name("bias", i).c_str(), t, {n}); break;
        case 1: y = relu(y); break;
        case 2: y = y + input(name("residual", i).c_str(), t, y.dims()); break;
        case 3: y = map(one_of({Op::silu, Op::gelu, Op::sigmoid, Op::tanh}), {y}); break;
        case 4: y = y * weight(name("scale", i).c_str(), t, {n}); break;
        case 5: y = y * clamp(y + 3, Operand(0), Operand(6)) / 6; break;
        case 6: y = select(y > 0, y, y * weight(name("slope", i).c_str(), t, {Dim(1)})); break;
        default: y = select(y < 0, map(Op::expm1, {y}), y);
      }
    }
    return y;
  }
  void output(const char* name, const ir::Handle& v) { graph.outputs.push_back({v.id(), name, {}}); }
  ir::Graph take() { return std::move(graph); }

 private:
  std::mt19937& random_;
};

}  // namespace ingot::kernels
