/** Every answer is counted by its route and status, and by nothing that a caller can make up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call, openTestApi } from '#test/api'
import { openHttpMetrics } from './metrics.ts'
import { openTelemetry } from './telemetry.ts'

test('answers are counted and timed by pattern, method and status; addresses are in no label', async () => {
  const telemetry = await openTelemetry({}, '0.0.0')
  const api = await openTestApi()
  try {
    const app = api.with({ onAnswered: openHttpMetrics(telemetry.metrics.meter) })
    const { key } = api.ours.people.admin
    for (let times = 0; times < 3; times++) await call(app, '/me', { key })
    await call(app, '/keys/key_0197f3b2c4d57a8e9b0c1d2e3f405164', { method: 'DELETE', key })
    await call(app, '/me')
    await call(app, '/nowhere/made-up-1')
    const text = await telemetry.metrics.render()
    const count = (labels: RegExp) =>
      text.split('\n').find((line) => line.startsWith('concord_http_requests_total{') && labels.test(line)) ?? ''
    const of = (method: string, route: string, status: number) =>
      count(new RegExp(`method="${method}".*route="${route}".*status="${status}"`)).split(' ')[1]
    assert.equal(of('GET', '/me', 200), '3')
    assert.equal(of('GET', '/me', 401), '1')
    assert.equal(of('DELETE', '/keys/:key_id', 404), '1')
    assert.match(text, /concord_http_request_duration_seconds_bucket\{[^}]*route="\/me"[^}]*le="0\.005"/)
    assert.equal(/made-up-1|0197f3b2/.test(text), false)
  } finally {
    await api.close()
    await telemetry.close()
  }
})
