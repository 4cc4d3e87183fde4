// storage_bytes of sizes that vary.
#pragma once
#include "ir/dim.h"
#include "ir/encoding.h"

namespace ingot::ir {

// Row-major.
Dim storage_bytes(const Encoding&, const Dims&);

}  // namespace ingot::ir
