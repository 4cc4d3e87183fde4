// Times fused bodies on [1024, 768] f32: reads a case per line ("softmax 20": best of 20), prints microseconds. Driven by
// bench/kernels_fused.py, which interleaves it with inductor.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

#include "backend/cpu/body_builder.h"
#include "base/parallel.h"

using namespace ingot;
using namespace ingot::backend;
using ir::DType;
using ir::Op;

int main(int argc, char** argv) {
  const int64_t rows = argc > 2 ? std::atoi(argv[2]) : 1024, columns = argc > 3 ? std::atoi(argv[3]) : 768;
  auto pool = make_pool(argc > 1 ? std::atoi(argv[1]) : 2);
  auto data = [&](int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>((i * 2654435761u % 2001) / 500.0 - 2);
    return v;
  };
  std::vector<float> x = data(rows * columns), y = x, r = x, out = x, w = data(columns), b = w;
  const auto f = DType::f32;
  auto full = [&](std::vector<float>& v) { return cpu::row_major(v.data(), {rows, columns}); };
  auto vector = [&](std::vector<float>& v) { return cpu::row_major(v.data(), {1, columns}); };
  std::map<std::string, std::unique_ptr<cpu::FusedStep>> cases;
  {
    cpu::BodyBuilder k({rows}, {columns});
    Reg a = k.load(f), e = k.map(Op::exp, f, {k.map(Op::sub, f, {a, k.reduce(Reduction::max, f, a)})});
    k.store(f, k.map(Op::div, f, {e, k.reduce(Reduction::sum, f, e)}));
    cases["softmax"] = std::make_unique<cpu::FusedStep>(k.body, std::vector{full(x), full(out)}, *pool);
  }
  {
    cpu::BodyBuilder k({rows}, {columns});
    Reg a = k.load(f), wr = k.load(f), br = k.load(f), n = k.number(768.0, f);
    Reg c = k.map(Op::sub, f, {a, k.map(Op::div, f, {k.reduce(Reduction::sum, f, a), n})});
    Reg v = k.map(Op::div, f, {k.reduce(Reduction::sum, f, k.map(Op::mul, f, {c, c})), n});
    Reg s = k.map(Op::rsqrt, f, {k.map(Op::add, f, {v, k.number(1e-5, f)})});
    k.store(f, k.map(Op::add, f, {k.map(Op::mul, f, {k.map(Op::mul, f, {c, s}), wr}), br}));
    cases["layer_norm"] = std::make_unique<cpu::FusedStep>(k.body, std::vector{full(x), vector(w), vector(b), full(out)}, *pool);
  }
  {
    cpu::BodyBuilder k({rows}, {columns});
    Reg a = k.load(f), br = k.load(f), yr = k.load(f), rr = k.load(f);
    Reg g = k.map(Op::gelu, f, {k.map(Op::add, f, {a, br})});
    k.store(f, k.map(Op::add, f, {k.map(Op::mul, f, {g, yr}), rr}));
    cases["gelu"] = std::make_unique<cpu::FusedStep>(k.body, std::vector{full(x), vector(b), full(y), full(r), full(out)}, *pool);
  }
  {
    cpu::BodyBuilder k({1}, {64});  // the cost of a step with nothing to do
    k.store(f, k.map(Op::add, f, {k.load(f), k.load(f)}));
    auto tiny = [&](std::vector<float>& v) { return cpu::row_major(v.data(), {1, 64}); };
    k.body.stores[0].operand = 2;
    cases["tiny"] = std::make_unique<cpu::FusedStep>(k.body, std::vector{tiny(x), tiny(y), tiny(out)}, *pool);
  }
  char name[64];
  int repeat = 0;
  while (std::scanf("%63s %d", name, &repeat) == 2) {
    auto found = cases.find(name);
    if (found == cases.end()) return 1;
    double best = 1e9;
    for (int i = 0; i < repeat; ++i) {
      auto start = std::chrono::steady_clock::now();
      found->second->run();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() * 1e6);
    }
    std::printf("%.2f\n", best);
    std::fflush(stdout);
  }
}
