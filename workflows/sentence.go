package workflows

import "sightline/agent"

// sentences are what a person reads when there is no answer. They name what
// the person or the operator can do, and nothing of the inside.
var sentences = map[string]string{
	string(agent.ErrRateLimited):  "The model is over its rate limit at the moment, so there is no answer. Please ask again in a little while.",
	string(agent.ErrUnavailable):  "The model could not be reached, so there is no answer. Please ask again later; the operator can see the cause in the turn's record.",
	string(agent.ErrAuth):         "The model refused this installation's credentials, so there is no answer. The operator needs to check the API key.",
	string(agent.ErrNoVision):     "The model in use can't see pictures, so there is no answer about them.",
	string(agent.ErrBadPicture):   "The model's provider rejected a picture, so there is no answer about it.",
	string(agent.ErrTooLong):      "This was more than the model can take at once, so there is no answer. Please ask about less, or start a new conversation.",
	string(agent.ErrBadRequest):   "The model's provider rejected the request, so there is no answer. The operator can see the cause in the turn's record.",
	string(agent.ErrEmptyAnswer):  "The model gave an empty answer, several times. Please put the question differently.",
	string(agent.ErrContentGuard): "The model's provider declined to answer this.",
	failSteps:                     "This took more steps than one answer may take, so I stopped. Please ask for a smaller part.",
	failCalls:                     "The model asked for too many tools at once, so I stopped. Please ask again, for a smaller part.",
	failAudience:                  "An answer was ready, but something that it draws on was deleted or may no longer be shown here, so it is withheld. Please ask again.",
}

func sentence(kind string) string {
	if s := sentences[kind]; s != "" {
		return s
	}
	return "Something went wrong inside, so there is no answer. Please ask again; the operator can see the cause in the turn's record."
}
