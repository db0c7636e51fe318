//! The table of all kernels.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::logical_expr::ScalarUDF;

use crate::kernel::Kernel;
use crate::scalar::kernel_function::KernelFunction;
use crate::{
    arithmetic, array, bytes, conversion, decimal, float, json, log_json, net, number, quantile_sketch, range, row_key,
    sketch, tenant_value, text, time,
};

/// Every kernel, by subject.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    [
        conversion::KERNELS,
        arithmetic::KERNELS,
        float::KERNELS,
        number::KERNELS,
        text::pieces::KERNELS,
        text::search::KERNELS,
        text::like::KERNELS,
        text::regexps::KERNELS,
        text::codes::KERNELS,
        text::format::KERNELS,
        text::number_format::KERNELS,
        bytes::KERNELS,
        bytes::formats::KERNELS,
        bytes::pieces::KERNELS,
        net::KERNELS,
        json::read::KERNELS,
        json::change::KERNELS,
        log_json::KERNELS,
        tenant_value::KERNELS,
        row_key::KERNELS,
        array::KERNELS,
        time::points::KERNELS,
        time::interval::KERNELS,
        range::KERNELS,
        sketch::KERNELS,
        quantile_sketch::KERNELS,
    ]
    .into_iter()
    .flatten()
    .chain(decimal::kernels())
}

/// A kernel with its functions: for each the strict form and the safe one.
#[derive(Debug)]
struct Functions {
    kernel: &'static Kernel,
    early: [Arc<ScalarUDF>; 2],
    /// Of a kernel that makes much: never computed before the statement runs.
    late: Option<[Arc<ScalarUDF>; 2]>,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Functions>> = LazyLock::new(|| {
    let functions = kernels().map(|kernel| {
        let forms = |late| [false, true].map(|safe| Arc::new(ScalarUDF::from(KernelFunction::new(kernel, safe, late))));
        let late = kernel.makes_much().then(|| forms(true));
        (kernel.name(), Functions { kernel, early: forms(false), late })
    });
    functions.collect()
});

/// The kernel of a name.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    FUNCTIONS.get(name).map(|functions| functions.kernel)
}

/// The function of a kernel. A `safe` one gives NULL where the other fails. A `late` one is never computed before the
/// statement runs; only kernels that make much have one. `None` where there is no such function.
pub fn kernel_function(name: &str, safe: bool, late: bool) -> Option<&'static Arc<ScalarUDF>> {
    let functions = FUNCTIONS.get(name)?;
    let [strict, lenient] = if late { functions.late.as_ref()? } else { &functions.early };
    Some(if safe { lenient } else { strict })
}
