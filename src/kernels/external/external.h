// A kernel that the user registered for a torch operator. ingot knows only its types and where its code is (docs/own_kernels.md).
//
// It has no Definition, since only its code says what it computes. The node (Op::external) has all that is needed to rebuild it from a plan's graph.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "kernels/external/run/external_args.h"

namespace ingot::kernels {

struct External {
  std::string name;                      // of the operator: "mylib::scale"
  std::vector<int64_t> written;          // operands that it updates in place; their new values are the first results
  std::vector<ir::Scalar> numbers;       // arguments that are not tensors, in order
  std::optional<HostCode> cpu;           // a function in a shared library
  struct Gpu {
    enum class Form : uint8_t { source, portable, machine } form = Form::source;
    std::string text;                    // in the form's own language (CUDA C++, PTX); of machine code its architecture, a space, and the bytes as hexadecimal digits
    std::string entry;                   // the kernel's name in it
    ir::Dims grid;                       // blocks along x, y, z
    std::vector<int64_t> block;          // threads along x, y, z
    ir::Dim shared = 0;                  // bytes of dynamic shared memory
    ir::Dims sizes;                      // further numbers, after the operator's own
    int64_t number_bytes = 8;           // bytes per int, float and size as a parameter: 4 or 8
  };
  std::optional<Gpu> gpu;
};

// Error (format) if the attributes are not those of an external kernel.
External external_of(const ir::Node&);

}  // namespace ingot::kernels
