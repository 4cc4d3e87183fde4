// Integer values that are affine in their own indices: v[i, j] = offset + a*i + b*j. Masks, positions and RoPE's angles are made of them.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "lower/rewrite.h"

namespace ingot::lower {

struct Affine {
  Dim offset = 0;
  std::vector<int64_t> steps;  // one per axis
  bool constant() const;
  bool operator==(const Affine&) const = default;
};

// Finds the affine form of a graph's values, each once.
class AffineForms {
 public:
  explicit AffineForms(const Graph& g) : g_(g) {}
  std::optional<Affine> of(ValueId v, int depth = 0);
  // The form in a broadcast shape of the given rank.
  static Affine widened(const Affine& f, size_t rank);
  static Affine difference(const Affine& a, const Affine& b);
  // Least and greatest value over a shape.
  static Dim least(const Affine& f, const Dims& dims);
  static Dim greatest(const Affine& f, const Dims& dims);

 private:
  std::optional<Affine> find(const Node& n, ValueId v, int depth);
  std::optional<Affine> concat(const Node& n, int depth);
  const Graph& g_;
  std::unordered_map<ValueId, std::optional<Affine>> known_;
};

// For a comparison of two affine values: the d whose elements are <= 0 where the comparison is true, over the result's axes.
std::optional<Affine> at_most_zero(AffineForms&, const Graph&, const Node& comparison);

}  // namespace ingot::lower
