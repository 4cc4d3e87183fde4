// Tests by data: files with cases "== name", options "name=value", a graph's text, "--", what is expected of it; and random values for a graph's inputs and weights.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ir/half.h"
#include "ir/reference.h"

namespace ingot::ir {

struct GraphCase {
  std::string name, graph, expected;
  std::vector<std::pair<std::string, std::string>> options = {};  // of a build
};

inline std::vector<GraphCase> read_cases(const std::string& path) {
  std::ifstream f(path);
  std::vector<GraphCase> cases;
  bool after = false;
  for (std::string line; std::getline(f, line);) {
    if (line.starts_with("== ")) {
      cases.push_back({line.substr(3), "", ""});
      after = false;
    } else if (line == "--") {
      after = true;
    } else if (const size_t sign = line.find('='); !cases.empty() && cases.back().graph.empty() && sign != std::string::npos) {
      cases.back().options.emplace_back(line.substr(0, sign), line.substr(sign + 1));
    } else if (!cases.empty()) {
      (after ? cases.back().expected : cases.back().graph) += line + "\n";
    }
  }
  return cases;
}

inline Array random_array(const Type& t, std::span<const int64_t> sizes, std::mt19937& random) {
  std::vector<int64_t> dims;
  for (const Dim& d : t.dims) dims.push_back(d.evaluate(sizes));
  Array a = Array::empty(t.dtype, dims);
  for (int64_t i = 0; i < a.numel(); ++i) {
    auto put = [&](auto v) { std::memcpy(a.bytes.data() + static_cast<size_t>(i) * sizeof(v), &v, sizeof(v)); };
    switch (t.dtype) {
      case DType::f32: put(std::uniform_real_distribution<float>(-2, 2)(random)); break;
      case DType::f64: put(std::uniform_real_distribution<double>(-2, 2)(random)); break;
      case DType::f16: put(float_to_f16(std::uniform_real_distribution<float>(-1, 1)(random))); break;
      case DType::i64: put(static_cast<int64_t>(random() % 3)); break;
      case DType::i8: put(static_cast<int8_t>(random())); break;
      case DType::b8: put(random() % 2 == 0); break;
      default: ADD_FAILURE() << "no random values of " << name_of(t.dtype);
    }
  }
  return a;
}

inline void add_weights(Graph& g, std::mt19937& random) {
  for (Weight& w : g.weights) {
    auto data = std::make_shared<Array>(random_array(g.type(w.value), {}, random));
    w.data = data->bytes.data();
    w.bytes = data->bytes.size();
    w.keep = data;
  }
}

}  // namespace ingot::ir
