// Random graphs for conformance tests: sizes with 0 and 1 among them, operands that lie otherwise than row-major.
#pragma once
#include <numeric>
#include <random>

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
  // An input of these dims whose axes lie in some other order in memory, one time in two.
  ir::Handle input(const char* name, ir::DType type, ir::Dims dims) {
    const size_t rank = dims.size();
    if (rank < 2 || one_in(2)) return {&graph, graph.add_input(name, {type, std::move(dims)})};
    ir::Axes order(rank);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    ir::Dims lying(rank);
    for (size_t d = 0; d < rank; ++d) lying[static_cast<size_t>(order[d])] = dims[d];
    return ir::permute({&graph, graph.add_input(name, {type, std::move(lying)})}, order);
  }
  ir::Handle weight(const char* name, ir::DType type, ir::Dims dims) {
    ir::Weight w;
    w.name = name;
    return {&graph, graph.add_weight(std::move(w), {type, std::move(dims)})};
  }
  void output(const char* name, const ir::Handle& v) { graph.outputs.push_back({v.id(), name, {}}); }
  ir::Graph take() { return std::move(graph); }

 private:
  std::mt19937& random_;
};

}  // namespace ingot::kernels
