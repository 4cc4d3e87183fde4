// Attention over keys and values in pages. A model reads `pool[table]`, all pages of each sequence one after the other: pool is [pages, heads.., P, D] and table [sequences, C]. A kernel reads the
// pages where they are (Role::block_table), so what is read by the table is never stored. A pool may have another float type than the model reads, or int8 that it multiplies by a scale for each row.
#pragma once
#include <optional>

#include "compile/context.h"

namespace ingot::compile {

// A pool of keys or of values, and its view with the operand's batch axes: [pages, batch.., P, D].
struct Pool {
  ir::ValueId pool;
  ir::AffineMap view;
};
// The pools of keys and values and what they are read by, in place of the node's operands. Pools of int8 have scales, in pools of [pages, heads.., P, 1].
struct PagedKeys {
  Pool key, value;
  std::optional<Pool> key_scale, value_scale;
  ir::ValueId table;
};
// Nullopt unless the node reads pages and the backend has a kernel for it. Only with a number of keys: what the table says of later pages is not read.
std::optional<PagedKeys> paged_keys(const ir::Graph&, const ir::Node& attention, const Backend&);

}  // namespace ingot::compile
