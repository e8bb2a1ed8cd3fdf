// How far a run, or a page of several, has come.
#pragma once

#include <string>

#include "mezzo/report/page.h"

namespace mezzo::report {

// True while the last run of the page goes on.
bool is_running(const Report& report);

// `Running: step 120 of 600.`, `Finished after 600 steps.`, `Ended after step 120 of 600.`; of
// several runs, with the number of the run. Empty without runs.
std::string status_text(const Report& report);

// What a browser's tab says: the title, while it runs after the percentage that is done.
std::string tab_text(const Report& report);

}  // namespace mezzo::report
