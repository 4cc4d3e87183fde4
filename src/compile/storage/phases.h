// The two parts of plan_storage, in this order.
#pragma once
#include "compile/storage/storage.h"

namespace ingot::compile {

void decide(StoragePlan&);  // sets stored, roots
void place(StoragePlan&);   // sets buffers, bindings, places

}  // namespace ingot::compile
