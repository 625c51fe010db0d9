/** Signals: an event from outside ends the waits of commands. */
import { actingFor, type CommandDeps, sendSignal, signalBody, signalView, toSignalView } from '#domains/commands'
import { accept } from '#kernel/refusal'
import { Known, resource, routes } from './resource.ts'

type Api = { readonly commands: CommandDeps }

const { post } = resource<Api>('commands')

export const signalRoutes = routes({
  sendSignal: post('/signals', {
    summary: 'Send a signal to the commands that wait for it',
    description:
      'It ends every wait for its name and key that is open. If there is none, it is kept, and ends the first wait that begins.',
    role: 'writer',
    body: [signalBody, 'The signal'],
    answers: { 200: ['The signal was received before.', signalView], 202: ['The signal is received.', signalView] },
    problems: [404, 409],
    async handle({ deps, principal, workspaceId, traceId, body }) {
      const input = { ...body, workspaceId, ingress: 'user_request' as const }
      const sent = await sendSignal(deps.commands, actingFor(principal, traceId), input)
      if (!sent.ok) return sent
      const view = toSignalView(sent.value)
      return accept(sent.value.isNew ? view : new Known(view))
    },
  }),
})
