/**
 * Gives a running installation the people whom the example tasks ask, and takes each one's invitation for them:
 *
 *   node examples/hire-approvers.ts [.concord] [http://127.0.0.1:7420]
 *
 * It speaks to the server as its first administrator; run again it refuses, since the people are there.
 */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const staff = [
  ['dora', 'data-owner'],
  ['ben', 'booking-approver'],
  ['bo', 'budget-owner'],
] as const

const [home = '.concord', url = 'http://127.0.0.1:7420'] = process.argv.slice(2)
const key = readFileSync(join(resolve(home), 'admin.key'), 'utf8').trim()

async function post<Answer>(path: string, body: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`POST ${path}: ${await response.text()}`)
  return (await response.json()) as Answer
}

for (const [name, role] of staff) {
  const person = { external_id: `local:${name}`, role: 'writer' }
  const { user_id, invitation } = await post<{ user_id: string; invitation: string }>('/people', person)
  await post('/org-roles', { slug: role, name: role })
  await post(`/people/${user_id}/org-roles`, { org_role: role })
  const made = await post<{ key: string }>('/invitations/redeem', { invitation })
  console.log(`export ${name.toUpperCase()}=${made.key}`)
}
