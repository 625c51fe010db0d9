/** A worker in Node: finds the gaps. Its first answer has no sources; after the check has refused it, it adds them. */
import process from 'node:process'
import { connect } from '@concordhq/concord/client'

const { CONCORD_URL: url = '', WORKER_KEY: key = '' } = process.env
const { api } = connect({ url, key })
console.log('ready')
for (;;) {
  const body = { queues: ['gaps'], worker: 'node', wait_seconds: 20 }
  const { data, error } = await api.POST('/mission-tasks/claim', { body })
  if (!data) throw new Error(JSON.stringify(error))
  if (!data.claimed) continue
  const { task_id, lease_token, attempt, input, last_error } = data.claimed
  const params = { path: { task_id } }
  await api.POST('/mission-tasks/{task_id}/start', { params, body: { lease_token, attempt } })
  const rules = input['rules'] as readonly string[]
  const gaps = rules.map((rule) => (last_error === null ? { rule } : { rule, source: 'handbook' }))
  const done = { output: { gaps }, summary: `${gaps.length} gaps.`, cost: '0.05', tokens: 0 }
  await api.POST('/mission-tasks/{task_id}/submit', { params, body: { lease_token, attempt, ...done } })
}
