/** `concord signals`: sends a signal to the commands that wait for it. */
import type { signalView } from '#domains/commands'
import { askServer, fieldsOf } from './client.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import { noun, verb, type ViewOf } from './noun.ts'

type SignalView = ViewOf<typeof signalView>
type SendOptions = JsonFlags & { readonly key: string; readonly id?: string }

export const signals = noun('send signals to commands that wait for them', (cli) => ({
  send: verb<[string, string | undefined, SendOptions], SignalView>({
    description: 'send a signal; it ends the waits for its name and key, or is kept for the first that begins',
    args: [
      ['<name>', 'what happened, such as carrier.delivered'],
      ['[-]', 'read the payload from standard input'],
    ],
    required: [['--key <key>', 'to which thing it happened, such as order-7; the wait names the same']],
    options: [
      ['--payload <json>', 'the payload, as a JSON object'],
      ['--file <file>', 'the payload, from a file'],
      ['--id <id>', 'the id of the event: the same id is received once'],
    ],
    examples: [`concord signals send carrier.delivered --key order-7 --payload '{"signed_by":"Dora"}'`],
    async ask(name, input, { key, id, ...flags }) {
      const payload = await readJsonFlags(cli.terminal, flags, input)
      if (!payload.ok) return payload
      return askServer<SignalView>(cli, 'POST', '/signals', fieldsOf({ name, key, payload: payload.value, id }))
    },
    say: ({ signal_id, woken }) => [
      `${signal_id}\n`,
      woken === 0 ? 'kept: no command waits for it yet\n' : `woke ${woken} ${woken === 1 ? 'command' : 'commands'}\n`,
    ],
  }),
}))
