// The compiler under hostile graphs: the text of a plan's graph, which is compiled anew where a plan has no program for the machine, ends in a plan
// that runs, or in an ingot::Error.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "compile/compile.h"
#include "ir/graph.h"
#include "run.h"
#include "token_mutator.h"

using namespace ingot;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    std::vector<compile::NamedGraph> functions;
    ir::Graph& g = functions.emplace_back("forward", ir::parse({reinterpret_cast<const char*>(data), size})).graph;
    std::vector<MemoryBlock> weights;
    for (ir::Weight& w : g.weights) {
      int64_t bytes = static_cast<int64_t>(ir::size_of(g.type(w.value).dtype));
      for (const ir::Dim& d : g.type(w.value).dims) {
        auto n = d.constant();
        if (!n || *n < 0 || __builtin_mul_overflow(bytes, *n, &bytes) || bytes > (1 << 20)) return 0;  // a plan with such a weight is refused before
      }
      weights.emplace_back(static_cast<size_t>(bytes) + 1, fuzz::little);
      std::fill_n(weights.back().data(), bytes, std::byte{1});
      w.data = weights.back().data();
      w.bytes = static_cast<size_t>(bytes);
    }
    plan::Plan plan = compile::compile(functions, {});
    plan::verify(plan);
    fuzz::run(plan, 0);
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  std::minstd_rand random(seed);
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
    if (random() % 6 == 0) {
      fuzz::change_lines(text, random);
    } else {
      fuzz::change_token(text, random, false);
    }
  }
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
