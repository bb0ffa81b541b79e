-- The kernels, by the kind of their entries. Only the kernels that a program needs are made.
--
-- reads   what DECIDE reads
-- makes   makers: the function that makes each kernel, by its kind; and the functions for outstanding units

function MAKE_KERNELS()
  local makers = {}
  makers[BUCKET_KIND] = function()
    BUCKET_TWIN()
  end
  makers[WARM_UP_KIND] = function()
    WARM_UP_TWIN()
  end
  makers[WINDOW_KIND] = function()
    WINDOW_TWIN()
  end
  makers[COUNTER_KIND] = function()
    COUNTER_TWIN()
  end
  makers[LOG_KIND] = function()
    LOG_TWIN()
  end
  makers[RING_KIND] = makers[LOG_KIND]
  makers[PERMITS_KIND] = function()
    PERMITS_TWIN()
  end
  makers.leases = function()
    LEASES()
  end
end
