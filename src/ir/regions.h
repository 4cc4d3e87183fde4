// A graph cut into regions: where a size is read from data, and where it branches or loops. A region is a straight graph, a function of its own, whose
// sizes are all known when it begins; or a branch or loop between two functions. Between regions stand values in memory.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace ingot::ir {

struct Regions {
  // What a function reads and writes: a value for each of its bindings, which are its inputs, its results, then what it keeps as state.
  // Values are numbered: the bindings of the function around come first, then `values`.
  struct Call {
    uint32_t function;
    std::vector<uint32_t> values;
  };
  struct Carried {
    uint32_t first, value, next;  // what the loop begins with; what both functions read, the result at the end; what the body writes, `value` itself if it is written in place
  };
  struct Read {
    uint32_t value;
    SymbolId symbol;
    OriginId origin;
  };
  struct Region {
    enum class Kind : uint8_t { straight, branch, loop };
    Kind kind = Kind::straight;
    uint32_t condition = none_id;  // branch: a 0-d b8. loop: what the first call writes, unless its turns are counted
    std::vector<Call> calls;       // straight: one, or none where only sizes are read; branch: if true, if false; loop: condition, body; counted loop: body
    std::vector<Carried> carried;  // of a loop
    std::vector<Read> reads;       // once it has run
    std::optional<Dim> count;      // of the turns of a loop
  };
  std::vector<Type> values;
  std::vector<Region> list;
};

// A function to be compiled. With regions: `graph` says what they are made of.
struct NamedGraph {
  std::string name;
  Graph graph;  // canonical
  std::optional<Regions> regions = {};
};

}  // namespace ingot::ir
