// The one way to write a file.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

// Writes the parts one after another to a new file in the folder of `path`, syncs it and renames it: the old file or the new one, never half, also when the
// machine stops. The new file's name is random, and no link is followed, neither there nor in the place of `path`: a link there is replaced, its target stays.
// What is there and no regular file is refused. A file that somebody has mapped keeps its bytes. Error (io) with the system's reason (disk full, no permission); nothing is left behind.
// The umask narrows `mode`. Durability::none syncs nothing: after the machine stops the file may hold anything, for what carries a checksum and can be made again.
enum class Durability { synced, none };
void write_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts, unsigned mode = 0666, Durability = Durability::synced);
void write_atomically(const std::string& path, std::string_view text);
// A name of such a new file: one that is older than its writer can be was left by a writer that was killed.
bool is_temporary_name(std::string_view name);

}  // namespace ingot
