/** Counts and times the answers of the API, by route and status; never by address, so that the number of series has an end. */
import type { Meter } from '@opentelemetry/api'
import type { Answered } from '#api'

export function openHttpMetrics(meter: Meter): (answered: Answered) => void {
  const requests = meter.createCounter('concord_http_requests', { description: 'Answers of the API' })
  const duration = meter.createHistogram('concord_http_request_duration_seconds', {
    description: 'Time until an answer of the API began',
    unit: 's',
    advice: { explicitBucketBoundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] },
  })
  return ({ method, route, status, durationMs }) => {
    requests.add(1, { method, route, status })
    duration.record(durationMs / 1_000, { method, route })
  }
}
