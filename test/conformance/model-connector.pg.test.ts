/** A model under the suite of connectors, with the fake model server. */
import { testSecrets } from '#test/connectors'
import { aModel, startModel, type Trouble } from '#test/fake-model'
import { describeConnector, type TroubleCase } from './connector.case.ts'

describeConnector('model', async () => {
  const canary = 'canary-model-0123456789'
  const model = await startModel({}, { key: canary })
  const own = { apiKey: 'vault://model' }
  const generate = {
    capability: 'generate',
    input: { messages: [{ role: 'user', text: 'Hello.' }], tools: [], output_tokens_max: 100 },
  }
  const hurried = { ...generate, connector: 'hurried' }
  const set = (trouble: Trouble) => () => model.script({ 'fake-small': [{ text: 'Hello.', trouble, times: 9 }] })
  const fails = (trouble: Trouble): TroubleCase => ({
    arrange: set(trouble),
    call: generate,
    ends: ['transient_connector_error'],
    isUnclear: true,
  })
  const behave = () => model.script({ 'fake-small': [{ text: 'Hello.' }] })
  return {
    definitions: [
      aModel(model.url, own).connector,
      aModel(model.url, { ...own, name: 'hurried', timeoutMs: 900 }).connector,
    ],
    secrets: testSecrets({ model: canary }),
    canaries: [canary],
    good: generate,
    trouble: {
      slow: { arrange: set('slow'), call: generate, ends: 'ok' },
      failing: fails('fault'),
      lying: fails('not_json'),
      duplicated: { arrange: behave, call: generate, ends: 'ok' },
      hanging: { arrange: set('silent'), call: hurried, ends: ['timeout'], isUnclear: true },
      oversized: fails('too_large'),
      malformed: fails('cut'),
    },
    echoes: [
      async () => {
        await set('echo')()
        return generate
      },
    ],
    endless: {
      call: generate,
      arrange: set('silent'),
      isHeld: async () => (await model.requests()).some(({ trouble, released }) => trouble === 'silent' && !released),
      isReleased: async () =>
        (await model.requests()).every(({ trouble, released }) => trouble !== 'silent' || released),
    },
    behave,
    close: () => model.close(),
  }
})
