/** The API with the tools of agents, and a worker beside it that drives whatever is woken while an answer is waited for. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Api } from '../../src/api/api.ts'
import { agentTools } from './agent-tools.ts'
import { call, openTestApi, type TestApi } from './api.ts'
import { openRoomOn, type TestRoom } from './commands.ts'

type Answer = { readonly status: number; readonly body: Record<string, unknown> }

export type AgentDoor = {
  readonly api: TestApi
  readonly app: Api
  readonly room: TestRoom
  /** As the writer of our tenant unless another key is given; an empty one is none. */
  post(path: string, body: unknown, key?: string): Promise<Answer>
  get(path: string, key?: string): Promise<Answer>
  /** A note that is published, with whatever else the body shall say. */
  propose(payload: object, more?: object, key?: string): Promise<Answer>
  count(table: 'commands' | 'domain_events' | 'approvals'): Promise<number>
  close(): Promise<void>
}

export async function openAgentDoor(): Promise<AgentDoor> {
  const api = await openTestApi()
  const room = openRoomOn(api.world, api.ours, undefined, agentTools)
  const app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
  const writer = api.ours.people.writer.key
  const ask = async (path: string, method: string, body: unknown, key: string): Promise<Answer> => {
    let isAnswered = false
    const asked = call(app, path, {
      method,
      ...(key === '' ? {} : { key }),
      ...(body === undefined ? {} : { body }),
      headers: { 'x-workspace': 'main' },
    }).finally(() => {
      isAnswered = true
    })
    while (!isAnswered) {
      await room.settleWoken()
      await pause(2)
    }
    const answer = await asked
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }
  const post = (path: string, body: unknown, key = writer) => ask(path, 'POST', body, key)
  return {
    api,
    app,
    room,
    post,
    get: (path, key = writer) => ask(path, 'GET', undefined, key),
    propose: (payload, more = {}, key = writer) =>
      post('/agent-actions', { tool_name: 'publish_note', payload, reason: 'The user asked for it.', ...more }, key),
    async count(table) {
      const [row] = await room.rows<{ count: number }>(`select count(*)::integer as count from concord.${table}`)
      return row?.count ?? 0
    },
    async close() {
      await room.close()
      await api.close()
    },
  }
}
