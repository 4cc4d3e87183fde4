// Which plans' device code this user's ingot compiled on this machine. Nothing in a file can say that, so it is written down beside the compiled code: for each
// plan with device code that is written, an empty file in the user's own folder, named by the SHA-256 of the plan's metadata (steps, sizes, code: all but weights).
#pragma once
#include <cstddef>
#include <span>

namespace ingot::plan {

bool made_here(std::span<const std::byte> metadata);
// Where there is no folder that this user alone can write, nothing is written down: such a plan's code is compiled anew when it is loaded.
void remember_made_here(std::span<const std::byte> metadata);

}  // namespace ingot::plan
