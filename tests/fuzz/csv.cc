// Tables: the whole input is a file.
#include "trainer/data/formats/csv.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = lockstep::fuzz::Text(data, size);
  const auto table = lockstep::train::ParseCsv(text, "label", "a.csv");
  if (!table.ok()) {
    Require(!table.status().message().empty(), "a refusal says why");
    return 0;
  }
  Require(!table->labels.empty(), "a table has rows");
  Require(table->features.size() == table->labels.size() * static_cast<std::size_t>(table->columns),
          "each row has every feature");
  return 0;
}
