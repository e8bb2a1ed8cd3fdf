// The sections of a run's page, a file each. A section without data has no parts, and the page
// leaves it out. To add one: declare its function here, define it in a file of its own beside this
// one, and give it a place in page.cpp.
#pragma once

#include "mezzo/report/run_data.h"
#include "mezzo/report/section.h"

namespace mezzo::report {

// The verdict in sentences, and how the run was configured.
Section summary_section(const RunData& run);

// Curves of the loss, the test set, the norm of gradients, the loss scale and the learning rate,
// and the skipped steps.
Section training_section(const RunData& run);

// The calls in which skipped steps went bad, if the run looked for them.
Section first_overflow_section(const RunData& run);

// The network's first input: shows at a glance whether images, labels and augmentation are right.
Section batch_section(const RunData& run);

// The exponents of gradients by parameter, and by module.
Section parameter_gradients_section(const RunData& run);
Section activation_gradients_section(const RunData& run);

// The exponents of the results of forward calls, by module, and what each format would do to those
// of each call; and of the weights.
Section activations_section(const RunData& run);
Section weights_section(const RunData& run);

// The precision of every call.
Section plan_section(const RunData& run);

// Several runs side by side. The page of one run has none.
Section comparison_section(const std::vector<RunData>& runs);

}  // namespace mezzo::report
