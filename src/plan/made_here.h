// Remembers which plans' device code this user's ingot compiled on this machine. A plan file could claim anything, so the record is
// outside it: writing a plan with device code leaves an empty file in the user's own cache folder, named by the SHA-256 of the plan's
// metadata (steps, sizes, code: everything but weights).
#pragma once
#include <cstddef>
#include <span>

namespace ingot::plan {

bool made_here(std::span<const std::byte> metadata);
// If no folder is writable by this user alone, nothing is recorded: the plan's code is compiled again when it is loaded.
void remember_made_here(std::span<const std::byte> metadata);

}  // namespace ingot::plan
