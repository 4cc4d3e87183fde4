// Attention over keys and values in pages. A model reads `pool[table]`, all pages of each sequence one after the other: pool is [pages, heads.., P, D] and table [sequences, C]. A kernel reads the
// pages where they are (Role::block_table), so what is read by the table is never stored.
#pragma once
#include <optional>

#include "compile/context.h"

namespace ingot::compile {

// The pools of keys and values and what they are read by, in place of the node's operands.
struct PagedKeys {
  ir::ValueId key, value, table;
  ir::AffineMap of_key, of_value;  // the views of the pools with the operands' batch axes: [pages, batch.., P, D]
};
// Nullopt unless the node reads pages and the backend has a kernel for it. Only with a number of keys: what the table says of later pages is not read.
std::optional<PagedKeys> paged_keys(const ir::Graph&, const ir::Node& attention, const Backend&);

}  // namespace ingot::compile
